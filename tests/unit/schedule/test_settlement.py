from __future__ import annotations

from array import array

import pytest

from engine.wire.output import FinishReason
from engine.wire.request import Sampling
from engine.wire.step import StepResult
from engine.wire.tokens import pack_ints, unpack
from tests.fakes.scripted_engine import ScriptedEngine, submit
from tests.oracles.solo_answer import solo_answer


def test_SMP_13_a_corrupted_row_fails_alone_and_leaves_no_block_in_the_cache() -> None:
    engine = ScriptedEngine()
    prompts = {number: range(number * 100, number * 100 + 9) for number in (1, 2, 3)}
    for number, prompt in prompts.items():
        engine.add(submit(number, prompt, sampling=Sampling(max_tokens=6)))
    engine.step()
    engine.worker.corrupt.add(2)
    engine.run()
    failed = engine.streams[2].failed
    assert failed is not None and (failed.status, failed.message) == (500, "the logits held no number")
    assert engine.scheduler.stats().corrupted == 1
    for number in (1, 3):
        stream = engine.streams[number]
        assert (stream.tokens, stream.finish) == solo_answer(stream.submit, engine.max_model_len)
    for number, cached in ((4, 8), (5, 0), (6, 8)):
        engine.add(submit(number, prompts[number - 3], sampling=Sampling(max_tokens=1)))
        engine.run()
        assert engine.streams[number].num_cached == cached
    engine.assert_idle()


def test_SMP_13_blocks_of_earlier_chunks_are_withdrawn_too_although_they_were_shared_already() -> None:
    engine = ScriptedEngine(max_tokens=4, num_slots=4)
    engine.add(submit(1, range(9)))
    engine.worker.corrupt.add(1)
    engine.step()
    engine.step()
    assert engine.cache.stats().blocks_cached == 2
    engine.step()
    assert engine.streams[1].failed is not None and engine.cache.stats().blocks_cached == 0


def test_a_row_that_draws_nothing_fails_instead_of_waiting_for_ever() -> None:
    engine = ScriptedEngine()
    stream = engine.add(submit(1, range(5)))
    plan = engine.scheduler.schedule()
    assert plan is not None
    engine.hear(engine.scheduler.postprocess(StepResult(plan.step, pack_ints([0]), b"")))
    assert stream.failed is not None and stream.failed.status == 500
    engine.assert_idle()


def test_several_tokens_a_row_are_delivered_together_and_cut_at_the_end() -> None:
    engine = ScriptedEngine()
    stream = engine.add(submit(1, range(5), sampling=Sampling(max_tokens=3)))
    plan = engine.scheduler.schedule()
    assert plan is not None
    engine.hear(engine.scheduler.postprocess(StepResult(plan.step, pack_ints([4]), pack_ints([1, 2, 3, 4]))))
    assert stream.tokens == [1, 2, 3] and stream.finish is FinishReason.LENGTH
    assert engine.scheduler.stats().generation_tokens == 3


def test_CHK_02_a_chunk_that_ends_no_prompt_says_nothing() -> None:
    engine = ScriptedEngine(max_tokens=4)
    stream = engine.add(submit(1, range(20), sampling=Sampling(max_tokens=2)))
    for _ in range(4):
        engine.step()
        assert stream.deltas == []
    engine.step()
    assert len(stream.tokens) == 1


def test_CHK_04_prompt_tokens_are_counted_once_and_whole() -> None:
    engine = ScriptedEngine(max_tokens=4, num_blocks=10)
    counts = []
    engine.add(submit(1, range(8), sampling=Sampling(max_tokens=3)))
    while engine.step():
        stats = engine.scheduler.stats()
        counts.append((stats.prompt_tokens, stats.generation_tokens))
    assert counts == [(0, 0), (8, 1), (8, 2), (8, 3)]


def test_prompt_logprobs_come_in_pieces_with_the_chunks_that_computed_them() -> None:
    engine = ScriptedEngine(max_tokens=4)
    stream = engine.add(submit(1, range(9), sampling=Sampling(max_tokens=2, logprobs=0, prompt_logprobs=0)))
    engine.run()
    assert [len(unpack(delta.prompt_logprobs.ranks)) for delta in stream.deltas if delta.prompt_logprobs] == [4, 4]
    assert stream.scored == list(range(1, 11))


def test_prompt_logprobs_are_computed_although_the_prompt_is_cached() -> None:
    engine = ScriptedEngine()
    for number in (1, 2):
        stream = engine.add(submit(number, range(9), sampling=Sampling(max_tokens=1, prompt_logprobs=0)))
        engine.run()
        assert stream.scored == list(range(1, 9)) and stream.num_cached == 0


def test_a_request_for_prompt_logprobs_only_draws_nothing() -> None:
    engine = ScriptedEngine(max_tokens=4)
    stream = engine.add(submit(1, range(9), sampling=Sampling(max_tokens=0, prompt_logprobs=0)))
    engine.run()
    assert (stream.tokens, stream.finish) == ([], FinishReason.LENGTH)
    assert stream.scored == list(range(1, 9))


@pytest.mark.parametrize("num_known", [0, 3])
def test_deltas_start_where_the_answer_stands(num_known: int) -> None:
    engine = ScriptedEngine()
    known = array("i", range(5 + num_known))
    stream = engine.add(submit(1, known, num_prompt=5, sampling=Sampling(max_tokens=6)))
    engine.run()
    assert [delta.start for delta in stream.deltas] == list(range(num_known, 6))
