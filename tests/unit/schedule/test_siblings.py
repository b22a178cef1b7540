from __future__ import annotations

import pytest

from engine.base.config import CacheConfig
from engine.cache import KvCache
from engine.schedule.request import Request
from engine.schedule.siblings import Siblings
from engine.wire.request import Sampling
from tests.fakes.scripted_engine import ScriptedEngine, submit

PROMPT = range(10)
"""Two full blocks of four tokens, and a tail."""


def follower(number: int, leader: int) -> Request:
    cache = KvCache(CacheConfig(), 8)
    return Request(submit(number, [1], leader=leader), (0, 0.0, number), cache, max_model_len=10)


def test_followers_come_free_with_their_leader_and_in_the_order_they_came() -> None:
    siblings = Siblings()
    for request in (second := follower(2, 1), third := follower(3, 1), follower(9, 8)):
        siblings.park(request)
    assert siblings.free(1) == [second, third]
    assert siblings.free(1) == [] and len(siblings) == 1


def test_a_discarded_follower_leaves_nothing_behind() -> None:
    siblings = Siblings()
    siblings.park(request := follower(2, 1))
    siblings.discard(request)
    siblings.discard(request)
    assert len(siblings) == 0 and not siblings.followers


def group(engine: ScriptedEngine, prompt: range = PROMPT, **sampling: int) -> None:
    for number in (1, 2, 3):
        leader = 0 if number == 1 else 1
        engine.add(submit(number, prompt, leader=leader, sampling=Sampling(**{"max_tokens": 3, **sampling})))


def test_siblings_compute_their_prompt_once() -> None:
    engine = ScriptedEngine()
    group(engine)
    engine.run()
    assert [engine.streams[number].num_cached for number in (1, 2, 3)] == [0, 8, 8]
    assert engine.worker.num_computed == 10 + 2 + 2 + 3 * 2


def test_siblings_wait_for_every_chunk_of_their_leader() -> None:
    engine = ScriptedEngine(max_tokens=4)
    group(engine)
    for running in (1, 1, 1):
        engine.step()
        assert engine.scheduler.stats().running == running
    engine.step()
    assert engine.scheduler.stats().running == 3


def test_a_sibling_that_comes_after_its_leader_has_its_prompt_runs_at_once() -> None:
    engine = ScriptedEngine()
    engine.add(submit(1, PROMPT))
    engine.step()
    stream = engine.add(submit(2, PROMPT, leader=1))
    engine.step()
    assert stream.tokens and stream.num_cached == 8


def test_siblings_hold_up_nobody_behind_them() -> None:
    engine = ScriptedEngine(max_tokens=12)
    group(engine)
    engine.add(submit(4, range(50, 52)))
    engine.step()
    assert engine.streams[4].tokens and not engine.streams[2].tokens


@pytest.mark.parametrize("steps", [0, 1], ids=["leader-waits", "leader-runs"])
def test_siblings_go_ahead_when_their_leader_is_gone(steps: int) -> None:
    engine = ScriptedEngine(max_tokens=8)
    group(engine)
    for _ in range(steps):
        engine.step()
    engine.abort(1)
    engine.run()
    assert len(engine.streams[2].tokens) == len(engine.streams[3].tokens) == 3
    engine.assert_idle()


def test_siblings_go_ahead_when_their_leader_was_never_here() -> None:
    engine = ScriptedEngine()
    engine.add(submit(2, PROMPT, leader=1))
    engine.step()
    assert engine.streams[2].tokens


@pytest.mark.parametrize(
    ("prompt", "caching", "sampling"),
    [(range(4), True, {}), (PROMPT, False, {}), (PROMPT, True, {"prompt_logprobs": 0})],
    ids=["no-full-block", "no-prefix-cache", "prompt-logprobs"],
)
def test_siblings_wait_only_if_there_will_be_blocks_to_share(
    prompt: range, caching: bool, sampling: dict[str, int]
) -> None:
    engine = ScriptedEngine(caching=caching)
    group(engine, prompt, **sampling)
    engine.step()
    assert all(engine.streams[number].tokens for number in (1, 2, 3))


def test_parked_siblings_count_as_waiting() -> None:
    engine = ScriptedEngine(max_queued=3)
    group(engine)
    assert engine.scheduler.stats().waiting == 3
    assert engine.add(submit(4, [1])).failed is not None
