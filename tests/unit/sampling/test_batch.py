from __future__ import annotations

from math import nan

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.sampling.batch import SamplingBatch
from engine.sampling.sampler import Sampler
from engine.wire.request import Sampling

VOCAB = 4099  # odd, so that rows do not begin at aligned addresses
GENERATOR = np.random.default_rng(7)
LOGITS = (GENERATOR.standard_normal((8, VOCAB)) * 3).astype(np.float32)
LOGITS[2, 5] = nan
LOGITS[3, :] = nan
TOKENS = [GENERATOR.integers(0, VOCAB, size=20 + row).astype(np.int32) for row in range(8)]

samplings = st.builds(
    Sampling,
    max_tokens=st.just(64),
    temperature=st.sampled_from([0.0, 0.8, 3.0]),
    top_k=st.sampled_from([0, 0, 5, 2000]),
    top_p=st.sampled_from([1.0, 0.3, 0.97]),
    min_p=st.sampled_from([0.0, 0.0, 0.05]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.5]),
    seed=st.integers(-(2**63), 2**63 - 1),
)


def draw(rows: list[tuple[int, Sampling]]) -> list[int | None]:
    """rows: (which of the eight logits and tokens, parameters)."""
    batch = SamplingBatch([Sampler(sampling, 10) for _, sampling in rows], [TOKENS[number] for number, _ in rows])
    drawn = batch.draw(torch.from_numpy(LOGITS[[number for number, _ in rows]]))
    return [None if lost else token for token, lost in zip(drawn.tokens.tolist(), drawn.corrupted, strict=True)]


@given(st.lists(st.tuples(st.integers(0, 7), samplings), min_size=2, max_size=8), st.randoms())
def test_SMP_05_a_row_does_not_depend_on_its_neighbours(rows, random):
    order = random.sample(range(len(rows)), len(rows))
    together = draw([rows[index] for index in order])
    assert together == [draw([rows[index]])[0] for index in order]


def test_SMP_05_a_seeded_row_draws_the_same_with_and_without_unseeded_and_seeded_neighbours():
    own = (0, Sampling(max_tokens=9, temperature=0.8, seed=42))
    alone = draw([own])[0]
    for others in ([(1, Sampling(max_tokens=9))], [(1, Sampling(max_tokens=9, temperature=1.0, seed=7))] * 7):
        assert draw([own, *others])[0] == draw([*others, own])[-1] == alone


def test_the_seed_and_the_position_in_the_answer_change_the_draw():
    def drawn(seed: int, num_output: int) -> int | None:
        sampler = Sampler(Sampling(max_tokens=99, temperature=5.0, seed=seed), 4)
        batch = SamplingBatch([sampler], [np.zeros(4 + num_output, dtype=np.int32)])
        return int(batch.draw(torch.from_numpy(LOGITS[:1])).tokens[0])

    assert len({drawn(seed, 0) for seed in range(-8, 8)}) > 8
    assert len({drawn(1, position) for position in range(16)}) > 8
    assert drawn(3, 5) == drawn(3, 5)


def test_the_length_of_the_prompt_does_not_change_the_draw():
    samplers = [Sampler(Sampling(max_tokens=99, temperature=5.0, seed=3), num_prompt) for num_prompt in (4, 9)]
    tokens = [np.zeros(num_tokens, dtype=np.int32) for num_tokens in (4 + 6, 9 + 6)]
    drawn = SamplingBatch(samplers, tokens).draw(torch.from_numpy(LOGITS[[0, 0]]))
    assert drawn.tokens[0] == drawn.tokens[1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_SMP_13_only_the_row_without_numbers_is_corrupted(temperature):
    drawn = draw([(number, Sampling(max_tokens=9, temperature=temperature)) for number in range(8)])
    assert [number for number, token in enumerate(drawn) if token is None] == [3]
    assert drawn[2] != 5


def test_equal_logits_are_won_by_the_lower_id_in_both_ways_to_be_greedy():
    logits = torch.zeros(1, 50)
    logits[0, [7, 30]] = 1.0
    for sampling in (Sampling(max_tokens=9), Sampling(max_tokens=9, bias_ids=(9,), bias_values=(0.5,))):
        drawn = SamplingBatch([Sampler(sampling, 1)], [np.zeros(1, dtype=np.int32)]).draw(logits)
        assert drawn.tokens.tolist() == [7]
