from __future__ import annotations

import pytest

from engine.wire.output import FinishReason
from engine.wire.request import Sampling
from tests.fakes.scripted_engine import ScriptedEngine, submit


@pytest.mark.parametrize(
    ("num_tokens", "num_prompt", "max_tokens", "reason"),
    [
        pytest.param(0, 0, 4, "at least one prompt token", id="no-tokens"),
        pytest.param(3, 0, 4, "at least one prompt token", id="no-prompt"),
        pytest.param(3, 4, 4, "at least one prompt token", id="prompt-longer-than-tokens"),
        pytest.param(20, 20, 1, "no room for an answer in a context of 20", id="no-room-for-a-token"),
        pytest.param(21, 5, 30, "in a context of 20", id="longer-than-the-context"),
        pytest.param(13, 13, 1, "do not fit in the KV cache, which holds 12", id="LEN-05-longer-than-the-cache"),
    ],
)
def test_what_can_never_run_is_refused_for_good(num_tokens: int, num_prompt: int, max_tokens: int, reason: str) -> None:
    engine = ScriptedEngine(num_blocks=3 if "cache" in reason else 64, max_model_len=20, max_queued=1)
    engine.add(submit(1, [1]))
    stream = engine.add(submit(2, range(num_tokens), num_prompt=num_prompt, sampling=Sampling(max_tokens=max_tokens)))
    assert stream.failed is not None and reason in stream.failed.message
    assert (stream.failed.status, stream.failed.retry_after_s) == (400, 0)
    assert engine.scheduler.stats().rejected == 0


@pytest.mark.parametrize("num_tokens", [12, 19])
def test_what_just_fits_runs(num_tokens: int) -> None:
    engine = ScriptedEngine(num_blocks=num_tokens // 4 + 1, max_model_len=20)
    stream = engine.add(submit(1, range(num_tokens), sampling=Sampling(max_tokens=1)))
    engine.run()
    assert len(stream.tokens) == 1


def test_a_full_queue_refuses_for_now() -> None:
    engine = ScriptedEngine(max_queued=2)
    streams = [engine.add(submit(number, [1])) for number in (1, 2, 3)]
    failed = streams[2].failed
    assert failed is not None and (failed.status, failed.retry_after_s) == (503, 1)
    assert engine.scheduler.stats().rejected == 1
    engine.step()
    assert engine.add(submit(4, [1])).failed is None


def test_retry_after_follows_the_pace_at_which_requests_end() -> None:
    engine = ScriptedEngine(max_queued=1)
    for number in range(1, 60):
        engine.clock.advance(5.0)
        engine.add(submit(number, [1]))
        engine.abort(number)
    engine.add(submit(100, [1]))
    assert (slow := engine.add(submit(101, [1])).failed) is not None and slow.retry_after_s == 5
    engine.clock.advance(3600.0)
    engine.abort(100)
    engine.add(submit(102, [1]))
    assert (stuck := engine.add(submit(103, [1])).failed) is not None and stuck.retry_after_s == 60


def test_an_id_that_is_here_already_is_refused_and_the_first_goes_on() -> None:
    engine = ScriptedEngine()
    engine.scheduler.add(submit(1, [1, 2]))
    (failed,) = engine.scheduler.add(submit(1, [3, 4])).failed
    assert failed.status == 500 and "here already" in failed.message
    assert list(engine.scheduler.roster.requests[1].token_ids) == [1, 2]


@pytest.mark.parametrize(
    ("num_tokens", "num_prompt", "max_tokens"), [(3, 3, 0), (6, 3, 3), (20, 10, 15)], ids=["none", "all", "context"]
)
def test_an_answer_that_is_complete_already_ends_at_once(num_tokens: int, num_prompt: int, max_tokens: int) -> None:
    engine = ScriptedEngine(max_model_len=20)
    stream = engine.add(submit(1, range(num_tokens), num_prompt=num_prompt, sampling=Sampling(max_tokens=max_tokens)))
    assert stream.finish is FinishReason.LENGTH and stream.deltas[0].start == num_tokens - num_prompt
    engine.assert_idle()
