from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import EngineFault
from engine.wire.output import FinishReason
from engine.wire.request import Sampling, Submit
from engine.wire.step import StepPlan
from engine.wire.tokens import unpack
from tests.fakes.scripted_engine import ScriptedEngine, submit
from tests.oracles.solo_answer import solo_answer


def counts_of(engine: ScriptedEngine) -> list[int]:
    """Runs a step; how many tokens each of its rows had."""
    plan = engine.scheduler.schedule()
    assert plan is not None
    engine.hear(engine.scheduler.postprocess(engine.worker.run(plan)))
    return list(unpack(plan.counts))


def test_nothing_to_run_is_no_plan() -> None:
    assert ScriptedEngine().scheduler.schedule() is None


def test_a_long_prompt_is_computed_in_chunks_of_what_the_budget_leaves() -> None:
    engine = ScriptedEngine(max_tokens=8)
    engine.add(submit(1, range(3)))
    engine.add(submit(2, range(50, 62)))
    assert [counts_of(engine) for _ in range(3)] == [[3, 5], [1, 7], [1, 1]]


def test_LEN_05_a_prompt_longer_than_a_step_completes_and_so_does_the_next() -> None:
    engine = ScriptedEngine(max_tokens=16, max_model_len=64)
    streams = [engine.add(submit(number, range(length))) for number, length in ((1, 40), (2, 4))]
    engine.run()
    assert all(stream.finish is FinishReason.LENGTH and len(stream.tokens) == 4 for stream in streams)


def test_LEN_11_an_answer_at_the_end_of_the_context_takes_no_more_steps_than_tokens() -> None:
    engine = ScriptedEngine(max_model_len=32)
    stream = engine.add(submit(1, range(28), sampling=Sampling(max_tokens=16)))
    engine.run(max_steps=5)
    assert stream.finish is FinishReason.LENGTH and len(stream.tokens) == 4


def test_running_requests_come_before_waiting_ones() -> None:
    engine = ScriptedEngine(max_tokens=4, policy="priority")
    engine.add(submit(1, range(10), priority=5))
    engine.step()
    engine.add(submit(2, range(50, 60), priority=0))
    assert counts_of(engine) == [4] and engine.scheduler.stats().waiting == 1


def test_nobody_waits_while_there_are_budget_slots_and_blocks() -> None:
    engine = ScriptedEngine(num_slots=3)
    for number in range(1, 6):
        engine.add(submit(number, [number]))
    engine.step()
    assert (engine.scheduler.stats().running, engine.scheduler.stats().waiting) == (3, 2)


def test_a_slot_released_by_one_step_is_taken_in_the_next() -> None:
    engine = ScriptedEngine(num_slots=1)
    for number in (1, 2):
        engine.add(submit(number, [number], sampling=Sampling(max_tokens=1)))
    engine.step()
    plan = engine.scheduler.schedule()
    assert plan is not None
    assert list(unpack(plan.release)) == [plan.admit[0].slot] == [0]


def test_SCH_06_small_requests_wait_behind_a_large_one_and_it_runs_as_soon_as_its_blocks_are_there() -> None:
    """The documented fairness: nobody overtakes the head. So a stream of small ones cannot starve it."""
    engine = ScriptedEngine(num_blocks=6)
    engine.add(submit(1, range(15), sampling=Sampling(max_tokens=2)))
    engine.step()
    engine.add(submit(2, range(100, 120), sampling=Sampling(max_tokens=1)))
    for number in range(3, 13):
        engine.add(submit(number, [number], sampling=Sampling(max_tokens=1)))
    counts_of(engine)
    assert engine.streams[1].is_over and not engine.streams[3].tokens
    assert counts_of(engine)[0] == 20
    engine.run()
    engine.assert_idle()


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_SCH_04_if_nobody_runs_whoever_waits_first_comes_in(policy: str) -> None:
    engine = ScriptedEngine(num_blocks=8, policy=policy)
    engine.add(submit(1, range(32), sampling=Sampling(max_tokens=1)))
    for number in range(2, 6):
        engine.add(submit(number, range(number * 100, number * 100 + 8), sampling=Sampling(max_tokens=1)))
    engine.run(max_steps=4)
    assert all(stream.is_over for stream in engine.streams.values())


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_DIS_07_an_abort_at_any_moment_leaves_nothing_behind(steps: int) -> None:
    engine = ScriptedEngine(max_tokens=4)
    stream = engine.add(submit(1, range(8)))
    for _ in range(steps):
        engine.step()
    engine.abort(1)
    assert stream.finish is FinishReason.ABORT
    assert not engine.step()
    engine.assert_idle()


def test_an_abort_of_nobody_is_fine() -> None:
    engine = ScriptedEngine()
    engine.abort(7)
    engine.add(submit(1, [1]))
    engine.abort(1, 1, 7)
    engine.assert_idle()


def test_a_row_that_was_aborted_in_flight_is_ignored_and_its_neighbour_is_not() -> None:
    engine = ScriptedEngine()
    for number in (1, 2):
        engine.add(submit(number, range(number, number + 5)))
    plan = engine.scheduler.schedule()
    assert plan is not None
    result = engine.worker.run(plan)
    engine.abort(1)
    engine.hear(engine.scheduler.postprocess(result))
    engine.run()
    assert engine.streams[1].tokens == []
    assert engine.streams[2].tokens == solo_answer(engine.streams[2].submit, 256)[0]


def test_DIS_02_two_hundred_requests_leave_every_table_empty() -> None:
    engine = ScriptedEngine(num_slots=4)
    for number in range(1, 201):
        engine.add(submit(number, range(number % 7 + 1), leader=number - 1 if number % 3 else 0))
        engine.step()
        if number % 5 == 0:
            engine.abort(number)
    engine.run()
    engine.assert_idle()


def test_when_the_worker_is_lost_everybody_learns_it_once() -> None:
    engine = ScriptedEngine(num_slots=1)
    for number in (1, 2, 3):
        engine.add(submit(number, range(9), leader=1 if number == 3 else 0))
    engine.scheduler.schedule()
    engine.hear(engine.scheduler.fail_all("the worker is lost"))
    assert {(s.failed.status, s.failed.message) for s in engine.streams.values() if s.failed} == {
        (503, "the worker is lost")
    }
    engine.assert_idle()
    assert engine.scheduler.schedule() is None


def test_two_plans_are_never_in_flight() -> None:
    engine = ScriptedEngine()
    engine.add(submit(1, [1]))
    engine.scheduler.schedule()
    with pytest.raises(AssertionError, match="in flight"):
        engine.scheduler.schedule()


def test_a_result_of_another_step_is_a_fault() -> None:
    engine = ScriptedEngine()
    engine.add(submit(1, [1], sampling=Sampling(max_tokens=9)))
    plan = engine.scheduler.schedule()
    assert isinstance(plan, StepPlan)
    result = engine.worker.run(plan)
    engine.hear(engine.scheduler.postprocess(result))
    engine.scheduler.schedule()
    with pytest.raises(EngineFault, match="does not answer"):
        engine.scheduler.postprocess(result)


def test_a_reset_waits_until_nobody_runs() -> None:
    engine = ScriptedEngine()
    engine.add(submit(1, range(9)))
    assert engine.scheduler.reset_prefix_cache()
    engine.step()
    assert not engine.scheduler.reset_prefix_cache()
    engine.run()
    assert engine.scheduler.reset_prefix_cache()
    engine.add(submit(2, range(9)))
    engine.run()
    assert engine.streams[2].num_cached == 0


def test_stats_tell_what_goes_on() -> None:
    engine = ScriptedEngine(num_slots=1, num_blocks=16)
    for number in (1, 2):
        engine.add(submit(number, range(9), sampling=Sampling(max_tokens=2)))
    engine.step()
    stats = engine.scheduler.stats()
    assert (stats.running, stats.waiting, stats.blocks_used, stats.blocks_total) == (1, 1, 3, 16)
    engine.run()
    stats = engine.scheduler.stats()
    assert (stats.steps, stats.prompt_tokens, stats.generation_tokens) == (4, 18, 4)
    assert (stats.prefix_queries, stats.prefix_hits) == (18, 8)


requests = st.builds(
    lambda tokens, max_tokens, ends: (tokens, Sampling(max_tokens=max_tokens, end_ids=ends)),
    st.lists(st.integers(0, 1), min_size=1, max_size=20),
    st.integers(1, 12),
    st.sampled_from([(), (0,), (1, 2)]),
)


@given(
    st.lists(requests, min_size=1, max_size=8),
    st.integers(9, 30),
    st.integers(1, 8),
    st.integers(8, 64),
    st.booleans(),
    st.integers(0, 2**32),
)
@settings(max_examples=60)
def test_answers_do_not_depend_on_batch_budget_blocks_cache_or_arrival(
    wishes: list[tuple[list[int], Sampling]], num_blocks: int, num_slots: int, max_tokens: int, caching: bool, seed: int
) -> None:
    engine = ScriptedEngine(num_blocks=num_blocks, num_slots=num_slots, max_tokens=max_tokens, caching=caching)
    random = Random(seed)
    submits: list[Submit] = [
        submit(number, tokens, sampling=sampling) for number, (tokens, sampling) in enumerate(wishes, 1)
    ]
    for message in submits:
        engine.add(message)
        for _ in range(random.randrange(3)):
            engine.step()
    engine.run()
    for message in submits:
        stream = engine.streams[message.request]
        assert (stream.tokens, stream.finish) == solo_answer(message, engine.max_model_len)
    engine.assert_idle()
