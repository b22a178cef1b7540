from __future__ import annotations

import pytest

from engine.wire.output import FinishReason
from engine.wire.request import Sampling
from tests.fakes.scripted_engine import ScriptedEngine, submit
from tests.oracles.solo_answer import solo_answer


def short_of_blocks(policy: str = "fcfs", *, caching: bool = True) -> ScriptedEngine:
    """Ten blocks of four tokens, and two requests that need six blocks each."""
    engine = ScriptedEngine(num_blocks=10, policy=policy, caching=caching)
    for number, priority in ((1, 5), (2, 1)):
        tokens = range(number * 100, number * 100 + 8)
        engine.add(submit(number, tokens, priority=priority, sampling=Sampling(max_tokens=16, logprobs=0)))
    return engine


def until_preemption(engine: ScriptedEngine) -> None:
    while engine.scheduler.stats().preemptions == 0:
        assert engine.step()


@pytest.mark.parametrize("caching", [True, False])
def test_SCH_01_an_answer_is_whole_after_its_request_was_preempted(caching: bool) -> None:
    engine = short_of_blocks(caching=caching)
    engine.run()
    assert engine.scheduler.stats().preemptions == 1
    for stream in engine.streams.values():
        assert (stream.tokens, stream.finish) == solo_answer(stream.submit, engine.max_model_len)
        assert len(stream.scored) == 16
    engine.assert_idle()


@pytest.mark.parametrize(("policy", "loser"), [("fcfs", 2), ("priority", 1)])
def test_the_last_in_policy_order_yields(policy: str, loser: int) -> None:
    engine = short_of_blocks(policy)
    until_preemption(engine)
    assert [request.id for request in engine.scheduler.roster.running] == [3 - loser]
    assert not engine.scheduler.roster.requests[loser].table.blocks


def test_a_preempted_request_is_served_before_those_who_came_later() -> None:
    engine = short_of_blocks()
    for number in (3, 4):
        engine.add(submit(number, range(number * 100, number * 100 + 30), sampling=Sampling(max_tokens=1)))
    until_preemption(engine)
    head = engine.scheduler.roster.waiting.head()
    assert head is not None and head.id == 2


def test_a_preempted_request_finds_its_own_blocks_again() -> None:
    engine = short_of_blocks()
    until_preemption(engine)
    computed = engine.worker.num_computed
    engine.abort(1)
    engine.step()
    assert engine.worker.num_computed - computed < 8, "most of its tokens stood in cached blocks"


def test_a_request_that_needs_blocks_and_is_last_yields_itself() -> None:
    engine = ScriptedEngine(num_blocks=3)
    engine.add(submit(1, range(3), sampling=Sampling(max_tokens=8)))
    engine.add(submit(2, range(50, 54), sampling=Sampling(max_tokens=4)))
    until_preemption(engine)
    assert engine.streams[1].finish is None
    assert [request.id for request in engine.scheduler.roster.running] == [1]
    engine.run()
    assert all(stream.finish is FinishReason.LENGTH for stream in engine.streams.values())


def test_a_request_that_outgrows_the_whole_cache_fails_with_a_reason() -> None:
    engine = ScriptedEngine(num_blocks=2)
    stream = engine.add(submit(1, range(6), sampling=Sampling(max_tokens=20)))
    engine.run()
    assert stream.failed is not None and "do not fit in the KV cache, which holds 8" in stream.failed.message
    assert stream.tokens == solo_answer(stream.submit, 100)[0][:3], "what was drawn had been delivered"
    engine.assert_idle()


def test_a_request_that_just_fills_the_cache_ends_well() -> None:
    engine = ScriptedEngine(num_blocks=2)
    stream = engine.add(submit(1, range(6), sampling=Sampling(max_tokens=3)))
    engine.run()
    assert stream.finish is FinishReason.LENGTH


def test_little_is_computed_twice_in_an_overfull_cache() -> None:
    """Each running request keeps a block within reach of its own; without that, a fifth is computed twice."""
    engine = ScriptedEngine(num_blocks=60, num_slots=16, max_tokens=64, caching=False)
    for number in range(1, 41):
        engine.add(submit(number, [number] * (5 + number % 20), sampling=Sampling(max_tokens=5 + number * 7 % 30)))
    engine.run()
    needed = sum(len(stream.submit.tokens) // 4 + len(stream.tokens) - 1 for stream in engine.streams.values())
    assert engine.worker.num_computed < 1.06 * needed
