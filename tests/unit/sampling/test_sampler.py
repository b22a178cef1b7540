from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sampling.sampler import Sampler
from engine.wire.request import Sampling
from tests.oracles.sampling_reference import distribution

TOLERANCE = 2e-5  # float32 weights against float64 ones, summed over the vocabulary


def swept(sampling: Sampling, logits: list[float], tokens: list[int], num_prompt: int) -> list[float]:
    """The sampler's own distribution: how much of [0, 1) leads to each id, found by halving between different ids."""
    sampler = Sampler(sampling, num_prompt)
    row, history = np.array(logits, dtype=np.float32), np.array(tokens, dtype=np.int32)
    mass = [0.0] * len(logits)

    def halve(low: float, high: float, first: int, last: int) -> None:
        assert first <= last, "a larger number led to a lower id"
        if first == last:
            mass[first] += high - low
        elif high - low < 1e-8:
            mass[first] += (high - low) / 2
            mass[last] += (high - low) / 2
        else:
            middle = (low + high) / 2
            token = sampler.draw(row, history, middle)
            halve(low, middle, first, token)
            halve(middle, high, token, last)

    ends = sampler.draw(row, history, 0.0), sampler.draw(row, history, 1.0 - 2.0**-53)
    if None in ends:
        assert ends == (None, None)
        return mass
    halve(0.0, 1.0, *ends)
    return mass


def float32(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, width=32)


@st.composite
def rows(draw: st.DrawFn) -> tuple[Sampling, list[float], list[int], int]:
    """Parameters, logits (ties and broken entries among them), tokens, num_prompt."""
    vocab = draw(st.integers(1, 12))
    ids = st.integers(0, vocab - 1)
    number = st.one_of(float32(-20, 20), st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from([nan, inf, -inf]))
    logits = draw(st.lists(number, min_size=vocab, max_size=vocab))
    tokens = draw(st.lists(ids, min_size=1, max_size=8))
    bias = draw(st.dictionaries(ids, float32(-10, 10), max_size=2))
    sampling = Sampling(
        max_tokens=100,
        min_tokens=draw(st.integers(0, 4)),
        end_ids=tuple(draw(st.lists(ids, max_size=2))),
        temperature=draw(st.sampled_from([0.0, 1e-6, 0.3, 1.0, 2.5])),
        top_k=draw(st.integers(0, 6)),
        top_p=draw(st.one_of(st.just(1.0), st.floats(0.01, 1.0))),
        min_p=draw(st.one_of(st.just(0.0), st.floats(0.001, 1.0))),
        presence_penalty=draw(st.sampled_from([0.0, -2.0, 1.5])),
        frequency_penalty=draw(st.sampled_from([0.0, -1.0, 0.7])),
        repetition_penalty=draw(st.sampled_from([1.0, 0.5, 1.3])),
        bias_ids=tuple(bias),
        bias_values=tuple(bias.values()),
        allowed_ids=tuple(draw(st.lists(ids, max_size=3))),
        bad_sequences=tuple(map(tuple, draw(st.lists(st.lists(ids, min_size=1, max_size=3), max_size=2)))),
    )
    return sampling, logits, tokens, draw(st.integers(1, len(tokens)))


@given(rows())
def test_the_distribution_is_that_of_the_reference(row):
    sampling, logits, tokens, num_prompt = row
    found, expected = swept(*row), distribution(logits, sampling, tokens, num_prompt)
    assert sum(abs(one - other) for one, other in zip(found, expected, strict=True)) < TOLERANCE


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.5, 1.0, 4.0]),
    st.sampled_from([0, 40, 1024, 1025, 2900]),
    st.sampled_from([1.0, 0.2, 0.95, 0.9999]),
    st.sampled_from([0.0, 1e-4]),
    st.sampled_from([None, 1, 8]),
)
def test_a_large_vocabulary_is_drawn_from_as_in_the_reference(seed, temperature, top_k, top_p, min_p, steps_per_unit):
    """Wide nuclei and large top_k go other ways than small ones; coarse logits tie at every cut."""
    generator = np.random.default_rng(seed)
    logits = (generator.standard_normal(3001) * 3).astype(np.float32)
    if steps_per_unit:
        logits = np.round(logits * steps_per_unit) / np.float32(steps_per_unit)
    sampling = Sampling(max_tokens=1, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    borders = np.cumsum(distribution(logits.tolist(), sampling, [0], 1))
    sampler = Sampler(sampling, 1)
    for uniform in generator.random(10):
        token = sampler.draw(logits, np.zeros(1, dtype=np.int32), uniform)
        below = borders[token - 1] if token else 0.0
        assert below - TOLERANCE <= uniform <= borders[token] + TOLERANCE
        assert borders[token] > below, "an id that was cut off"


LOGITS = [1.0, 0.5, 0.0, -0.5, 2.0]
PROMPT, OUTPUT = [0, 1], [1, 1, 3]
CHANGES = {
    "min_tokens": {"min_tokens": 4, "end_ids": (4,)},
    "end_ids": {"min_tokens": 4, "end_ids": (0, 1)},
    "temperature": {"temperature": 0.1},
    "top_k": {"top_k": 1},
    "top_p": {"top_p": 0.1},
    "min_p": {"min_p": 0.9},
    "presence_penalty": {"presence_penalty": 2.0},
    "frequency_penalty": {"frequency_penalty": 2.0},
    "repetition_penalty": {"repetition_penalty": 2.0},
    "bias_ids": {"bias_ids": (2,), "bias_values": (5.0,)},
    "bias_values": {"bias_ids": (2,), "bias_values": (-100.0,)},
    "allowed_ids": {"allowed_ids": (2, 3)},
    "bad_sequences": {"bad_sequences": ((1, 3, 4),)},
}
READ_ELSEWHERE = {"max_tokens", "seed", "logprobs", "prompt_logprobs"}
"""By the scheduler, by SamplingBatch, and by the runner; tested there."""


@pytest.mark.parametrize("field", CHANGES)
def test_SMP_10_every_parameter_changes_the_distribution(field):
    plain = Sampling(max_tokens=9, temperature=1.0)
    changed = Sampling(**({"max_tokens": 9, "temperature": 1.0} | CHANGES[field]))
    tokens = PROMPT + OUTPUT
    assert swept(changed, LOGITS, tokens, 2) != pytest.approx(swept(plain, LOGITS, tokens, 2), abs=0.01)


def test_SMP_10_no_parameter_is_left_out():
    assert set(CHANGES) | READ_ELSEWHERE == set(Sampling.__struct_fields__)


FLAT = np.ones(10, dtype=np.float32)


def adjusted(tokens: list[int], num_prompt: int, **penalty: float) -> dict[int, float]:
    """The scores that differ from the logits, all 1."""
    sampler = Sampler(Sampling(max_tokens=9, **penalty), num_prompt)
    scores = sampler.scores(FLAT, np.array(tokens, dtype=np.int32))
    return {token: score for token, score in enumerate(scores.tolist()) if score != 1.0}


@pytest.mark.parametrize(
    ("tokens", "penalty", "expected"),
    [
        pytest.param([7, 7, 7], {"presence_penalty": 1.0}, {}, id="SMP-09-presence-first-step"),
        pytest.param([7, 7, 7], {"frequency_penalty": 1.0}, {}, id="SMP-09-frequency-first-step"),
        pytest.param([7, 7, 7], {"repetition_penalty": 2.0}, {7: 0.5}, id="SMP-09-repetition-first-step"),
        pytest.param([7, 7, 7, 9, 9], {"presence_penalty": 1.0}, {9: 0.0}, id="SMP-09-presence"),
        pytest.param([7, 7, 7, 9, 9], {"frequency_penalty": 1.0}, {9: -1.0}, id="SMP-09-frequency"),
        pytest.param([7, 7, 7, 9, 9], {"repetition_penalty": 2.0}, {7: 0.5, 9: 0.5}, id="SMP-09-repetition"),
    ],
)
def test_penalties_know_prompt_from_answer(tokens, penalty, expected):
    assert adjusted(tokens, 3, **penalty) == expected


@pytest.mark.parametrize("factor", [5e-324, 1e-320, 1e-30, 1e30, 1.7e308], ids=lambda value: f"SMP-08-{value}")
@pytest.mark.filterwarnings("error")
def test_extreme_repetition_penalties_still_give_an_id(factor):
    logits = np.array([3.4e38, -3.4e38, 0.0, 1.0, -1.0], dtype=np.float32)
    sampling = Sampling(max_tokens=9, temperature=0.01, top_p=0.9, repetition_penalty=factor)
    assert Sampler(sampling, 1).draw(logits, np.arange(5, dtype=np.int32), 0.5) in range(5)


@pytest.mark.parametrize("cut", [{}, {"top_k": 2}, {"top_p": 0.99}, {"min_p": 0.01}, {"temperature": 0.0}])
@pytest.mark.parametrize("broken", [nan, inf, -inf])
@pytest.mark.filterwarnings("error")
def test_SMP_13_a_broken_entry_is_never_drawn_and_spoils_no_other(cut, broken):
    logits = [0.0, broken, 1.0, 0.5]
    found = swept(Sampling(**({"max_tokens": 1, "temperature": 1.0} | cut)), logits, [0], 1)
    assert found[1] == 0.0 and sum(found) == pytest.approx(1.0)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("broken", [nan, inf, -inf])
@pytest.mark.filterwarnings("error")
def test_SMP_14_a_row_without_a_number_gives_no_token(temperature, broken):
    logits = np.full(8, broken, dtype=np.float32)
    assert Sampler(Sampling(max_tokens=1, temperature=temperature), 1).draw(logits, np.zeros(1, np.int32), 0.3) is None


def test_allowed_ids_without_a_number_give_no_token():
    logits = np.array([0.0, nan, 1.0], dtype=np.float32)
    assert Sampler(Sampling(max_tokens=1, allowed_ids=(1,)), 1).draw(logits, np.zeros(1, np.int32), 0.3) is None


def test_bans_give_way_when_nothing_else_is_left():
    """allowed_ids within the end ids, before min_tokens: a contradiction must not look like a corrupted model."""
    sampling = Sampling(max_tokens=9, min_tokens=5, end_ids=(1, 2), allowed_ids=(1,))
    assert Sampler(sampling, 1).draw(np.zeros(4, np.float32), np.zeros(1, np.int32), 0.3) == 1


def test_bad_sequences_look_at_the_answer_only():
    sampling = Sampling(max_tokens=9, bad_sequences=((5, 4),))
    logits = np.array([*LOGITS, 0.0], dtype=np.float32)
    assert Sampler(sampling, 2).draw(logits, np.array([0, 5], dtype=np.int32), 0.0) == 4
    assert Sampler(sampling, 1).draw(logits, np.array([0, 5], dtype=np.int32), 0.0) == 0


def test_end_ids_may_come_when_min_tokens_are_there():
    sampler = Sampler(Sampling(max_tokens=9, min_tokens=2, end_ids=(4,)), 1)
    logits = np.array(LOGITS, dtype=np.float32)
    drawn = [sampler.draw(logits, np.zeros(1 + num_output, dtype=np.int32), 0.0) for num_output in range(4)]
    assert drawn == [0, 0, 4, 4]


@pytest.mark.parametrize(("vocab", "top_k"), [(8, 0), (8, 6), (1000, 0), (1000, 900), (2000, 1500)])
def test_a_nucleus_that_reaches_top_p_exactly_ends_there(vocab, top_k):
    """Equal logits: half of them hold half of the weight, with no rounding."""
    sampler = Sampler(Sampling(max_tokens=9, temperature=1.0, top_k=top_k, top_p=0.5), 1)
    highest = sampler.draw(np.zeros(vocab, np.float32), np.zeros(1, np.int32), 1.0 - 2.0**-53)
    assert highest == (top_k or vocab) // 2 - 1


def test_drawing_leaves_the_logits_alone():
    logits = np.array(LOGITS, dtype=np.float32)
    sampling = Sampling(max_tokens=9, temperature=1.0, min_p=0.5, bias_ids=(0,), bias_values=(1.0,), presence_penalty=1)
    Sampler(sampling, 1).draw(logits, np.array([0, 1], dtype=np.int32), 0.5)
    assert logits.tolist() == LOGITS
