from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sampling.draw import uniforms
from engine.sampling.sampler import SEED_BITS, Sampler
from engine.wire.request import Sampling
from engine.worker.runner import ModelRunner
from tests.fakes.fake_model import FakeModel, history_logits
from tests.fakes.small_core import SmallCore, entries
from tests.oracles.sampling_reference import log_probability, rank

VOCAB, BLOCK, NUM_BLOCKS = 50, 4, 256
GREEDY = Sampling(max_tokens=99)


class TickingClock:
    """Each look at it is a second later."""

    def __init__(self) -> None:
        self.seconds = count()

    def now(self) -> float:
        return float(next(self.seconds))

    def wall(self) -> float:
        return self.now()


def small_core(model: FakeModel | None = None, *, vocab_size: int = VOCAB, max_num_seqs: int = 8) -> SmallCore:
    model = model or FakeModel(VOCAB, BLOCK)
    model.allocate_cache(NUM_BLOCKS)
    runner = ModelRunner(
        model,
        max_num_seqs=max_num_seqs,
        max_model_len=96,
        block_size=BLOCK,
        vocab_size=vocab_size,
        clock=TickingClock(),
    )
    return SmallCore(runner, NUM_BLOCKS, BLOCK)


def expected(tokens: Sequence[int], sampling: Sampling, number: int, num_prompt: int | None = None) -> list[int]:
    """The answer, one token at a time, without a runner."""
    num_prompt = num_prompt or len(tokens)
    sampler = Sampler(sampling, num_prompt)
    history = list(tokens)
    for _ in range(number):
        seed, position = (np.array([x], np.uint64) for x in (sampling.seed & SEED_BITS, len(history) - num_prompt))
        token = sampler.draw(
            history_logits(history, VOCAB), np.array(history, np.int32), float(uniforms(seed, position)[0])
        )
        history.append(token)
    return history[num_prompt:]


samplings = st.sampled_from(
    [
        GREEDY,
        Sampling(max_tokens=99, temperature=1.0, seed=5),
        Sampling(max_tokens=99, temperature=0.7, top_k=5, top_p=0.9, seed=-3),
        Sampling(max_tokens=99, repetition_penalty=1.5, frequency_penalty=0.5),
        Sampling(max_tokens=99, min_tokens=3, end_ids=tuple(range(25))),
        Sampling(max_tokens=99, logprobs=2, prompt_logprobs=1),
    ]
)
prompts = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=20)


@given(st.lists(st.tuples(prompts, samplings), min_size=1, max_size=5), st.data())
def test_chunks_and_neighbours_never_change_the_tokens(requests, data):
    """Any mixture of prefill chunks and decodes, some sequences pausing: each answer is the one it gets alone."""
    core = small_core()
    sequences = [core.admit(slot, prompt, sampling) for slot, (prompt, sampling) in enumerate(requests)]
    for _ in range(data.draw(st.integers(1, 8))):
        left = [(sequence, len(sequence.tokens) - sequence.computed) for sequence in sequences]
        core.step([(sequence, data.draw(st.integers(1, most))) for sequence, most in left if data.draw(st.booleans())])
    core.decode(sequences, 3)
    for sequence, (prompt, sampling) in zip(sequences, requests, strict=True):
        assert sequence.output == expected(prompt, sampling, len(sequence.output))


@given(prompts, samplings, st.integers(1, 6))
def test_a_sequence_goes_on_in_another_slot_as_if_it_had_never_left(prompt, sampling, before):
    core = small_core()
    sequence = core.admit(3, prompt, sampling)
    core.decode([sequence], before)
    core.drop(sequence)
    resumed = core.admit(0, sequence.tokens, sampling, num_prompt=len(prompt))
    core.decode([resumed], 3)
    assert resumed.output == expected(prompt, sampling, before + 3)


def test_a_shared_prefix_is_read_from_the_blocks_of_another_sequence():
    core = small_core()
    prompt = list(range(11))
    first = core.admit(0, prompt, GREEDY)
    core.decode([first], 1)
    second = core.admit(1, [*prompt, 7], GREEDY, shared=(first, 2))
    core.decode([first, second], 2)
    assert second.output == expected([*prompt, 7], GREEDY, 2)
    assert first.output == expected(prompt, GREEDY, 3)


def test_a_slot_is_taken_again_in_the_step_that_releases_it():
    core = small_core(max_num_seqs=1)
    core.decode([first := core.admit(0, list(range(30)), GREEDY)], 2)
    core.drop(first)
    core.decode([second := core.admit(0, [1, 2], GREEDY)], 3)
    assert second.output == expected([1, 2], GREEDY, 3)


def test_a_row_before_the_end_of_its_prompt_draws_nothing():
    core = small_core()
    sequence = core.admit(0, [1, 2, 3], GREEDY)
    result = core.step([(sequence, 2)])
    assert (result.lengths, result.tokens) == (bytes(4), b"")
    assert core.step([(sequence, 1)]).lengths == b"\1\0\0\0"


def test_a_step_without_rows_still_releases_and_admits():
    core = small_core()
    first = core.admit(0, [1], GREEDY)
    assert core.step([]).lengths == b""
    core.drop(first)
    core.admit(0, [2], GREEDY)
    core.step([])
    assert core.runner.stats().running == 1


def test_reset_forgets_every_sequence():
    core = small_core()
    core.decode([core.admit(slot, [1, 2], GREEDY) for slot in range(3)], 1)
    core.runner.reset()
    core.decode([again := core.admit(1, [4], GREEDY)], 2)
    assert core.runner.stats().running == 1 and again.output == expected([4], GREEDY, 2)


def test_SMP_13_a_row_of_nan_is_corrupted_and_its_neighbours_go_on():
    prompts = [[1, 2, 3], [4, 5], [6, 7, 8, 9, 1]]
    answers = [expected(prompt, GREEDY, 4) for prompt in prompts]
    spoil = {(*prompts[1], *answers[1][:1]): "row", (*prompts[2], *answers[2][:1]): "entry"}
    core = small_core(FakeModel(VOCAB, BLOCK, spoil))
    sequences = [core.admit(slot, prompt, GREEDY) for slot, prompt in enumerate(prompts)]
    core.decode(sequences, 1)
    core.decode(sequences, 1)
    assert [sequence.corrupted for sequence in sequences] == [False, True, False]
    assert sequences[1].output == answers[1][:1]
    core.drop(sequences[1])
    core.decode([sequences[0], sequences[2]], 2)
    assert sequences[0].output == answers[0]
    second_best = history_logits([*prompts[2], answers[2][0]], VOCAB).argsort()[-2]
    assert sequences[2].output[1] == second_best
    assert core.runner.stats().corrupted == 1


def test_SMP_13_a_prompt_row_of_nan_corrupts_a_sequence_that_asked_for_prompt_logprobs():
    core = small_core(FakeModel(VOCAB, BLOCK, {(1, 2): "row"}))
    asked = core.admit(0, [1, 2, 3], Sampling(max_tokens=9, prompt_logprobs=0))
    other = core.admit(1, [1, 2, 3], GREEDY)
    core.decode([asked, other], 1)
    assert (asked.corrupted, asked.output, asked.logprobs) == (True, [], [])
    assert (other.corrupted, other.output) == (False, expected([1, 2, 3], GREEDY, 1))


@given(prompts, st.integers(0, 4), st.lists(st.integers(1, 7), min_size=20, max_size=20))
def test_LGP_05_prompt_logprobs_have_one_entry_per_prompt_token_but_the_first(prompt, alternatives, chunks):
    """However the prompt is cut into chunks, and beside a neighbour that asked for none."""
    core = small_core()
    sequence = core.admit(1, prompt, Sampling(max_tokens=9, prompt_logprobs=alternatives))
    neighbour = core.admit(0, [3] * 20, GREEDY)
    for chunk in chunks:
        left = len(prompt) - sequence.computed
        rows = [(neighbour, 1), (sequence, min(chunk, left))] if left else [(neighbour, 1)]
        core.step(rows)
    core.decode([sequence], 2)
    found = [entry for piece in sequence.logprobs if piece.prompt for entry in entries(piece.prompt)]
    assert [ids[0] for ids, _, _ in found] == prompt[1:]
    for position, (ids, values, place) in enumerate(found, start=1):
        logits = history_logits(prompt[:position], VOCAB).tolist()
        assert len(ids) == 1 + alternatives and place == rank(logits, prompt[position])
        assert values == pytest.approx([log_probability(logits, token) for token in ids], abs=1e-4)
    assert all(piece.sampled is None for piece in sequence.logprobs)


@pytest.mark.parametrize("length", [64, 65, 90])
def test_INP_06_prompt_logprobs_longer_than_a_piece_are_whole(length):
    core = small_core()
    prompt = [token % VOCAB for token in range(length)]
    sequence = core.admit(0, prompt, Sampling(max_tokens=9, prompt_logprobs=0))
    core.decode([sequence], 1)
    assert [ids for ids, _, _ in entries(sequence.logprobs[0].prompt)] == [[token] for token in prompt[1:]]


@pytest.mark.parametrize("alternatives", [0, 3], ids=["LGP-06-zero-is-not-off", "three"])
def test_logprobs_are_of_the_raw_distribution(alternatives):
    """Temperature, bias and penalties change the token, not what is said of it."""
    sampling = Sampling(
        max_tokens=9, temperature=0.5, seed=1, logprobs=alternatives, bias_ids=(9,), bias_values=(100.0,)
    )
    core = small_core()
    sequence = core.admit(0, [1, 2, 3], sampling)
    core.decode([sequence], 2)
    for position, piece in enumerate(sequence.logprobs):
        logits = history_logits(sequence.tokens[: 3 + position], VOCAB).tolist()
        ((ids, values, place),) = entries(piece.sampled)
        best = sorted(range(VOCAB), key=lambda token: -logits[token])[:alternatives]
        assert ids == [9, *best] and place == rank(logits, 9)
        assert values == pytest.approx([log_probability(logits, token) for token in ids], abs=1e-4)
        assert piece.prompt is None


def test_logprobs_come_for_the_rows_that_asked_only():
    core = small_core()
    asked = Sampling(max_tokens=9, logprobs=1)
    sequences = [core.admit(slot, [slot, 1], asked if slot == 1 else GREEDY) for slot in range(3)]
    result = core.step([(sequence, 2) for sequence in sequences])
    assert [entry.row for entry in result.logprobs] == [1]


def test_ids_beyond_the_vocabulary_are_never_drawn():
    core = small_core(vocab_size=5)
    sequence = core.admit(0, [1, 2], Sampling(max_tokens=9, temperature=2.0, seed=1))
    core.decode([sequence], 20)
    assert max(sequence.output) < 5


def test_a_step_says_how_long_its_parts_took():
    core = small_core()
    result = core.step([(core.admit(0, [1, 2], GREEDY), 2)])
    assert (result.forward_s, result.sample_s) == (1.0, 1.0)
