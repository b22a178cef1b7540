"""What every back end and weight format must do, held against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.kernels.batch import StepBatch
from tests.oracles.attention_reference import causal_attention, rotate_halves
from tests.oracles.decoder_reference import rms_norm
from tests.oracles.paged_steps import PagedSequences
from tests.unit.kernels.backends import BLOCK_SIZE, NUM_BLOCKS, NUM_LAYERS, SHAPE, Backend

NUM_HEADS = SHAPE.num_heads + 2 * SHAPE.num_kv_heads


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 2, 7, 33, 130])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_projection_multiplies_by_its_weight_and_adds_its_bias(backend, rows, has_bias):
    weight, bias, x = numbers(48, 80), numbers(48, seed=1), numbers(rows, 80, seed=2)
    projection = backend.kernels.pack(weight, bias if has_bias else None)
    backend.assert_near(projection(backend.give(x)), x.astype(np.float64) @ weight.T + (bias if has_bias else 0))


def test_packing_keeps_no_view_of_the_scratch(backend):
    weight, values, x = numbers(48, 80), numbers(80, seed=1), numbers(5, 80, seed=2)
    expected_product, expected_norm = x.astype(np.float64) @ weight.T, rms_norm(x.astype(np.float64), values, 1e-5)
    projection, vector = backend.kernels.pack(weight, None), backend.kernels.vector(values)
    weight[:], values[:] = np.nan, np.nan
    backend.assert_near(projection(backend.give(x)), expected_product)
    backend.assert_near(backend.kernels.rms_norm(backend.give(x), vector, 1e-5), expected_norm)


class Rows:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.num_rows = len(values)

    def read(self, rows: np.ndarray) -> np.ndarray:
        return self.values[rows].astype(np.float32)


def test_a_table_gives_the_rows_of_the_steps_tokens(backend):
    values = numbers(50, 32)
    lookup = backend.kernels.table(Rows(values))
    backend.kernels.begin(PagedSequences(2, block_size=BLOCK_SIZE).step([(0, [3, 3, 49]), (1, [0])]))
    backend.assert_near(lookup(), values[[3, 3, 49, 0]])


def test_rms_norm_scales_each_row_to_a_mean_square_of_one(backend):
    x, weight = numbers(9, 64) * 30, numbers(64, seed=1)
    found = backend.kernels.rms_norm(backend.give(x), backend.kernels.vector(weight), 1e-5)
    backend.assert_near(found, rms_norm(x.astype(np.float64), weight, 1e-5))


def test_add_rms_norm_adds_into_the_residual_and_norms_the_sum(backend):
    x, residual, weight = numbers(9, 64), numbers(9, 64, seed=1), numbers(64, seed=2)
    kept = backend.give(residual)
    normed = backend.kernels.add_rms_norm(backend.give(x), kept, backend.kernels.vector(weight), 1e-5)
    total = x.astype(np.float64) + residual
    backend.assert_near(kept, total)
    backend.assert_near(normed, rms_norm(total, weight, 1e-5))


def test_head_norm_norms_query_and_key_heads_and_leaves_the_values(backend):
    qkv = numbers(5, NUM_HEADS, SHAPE.head_dim) * 4
    query_weight, key_weight = numbers(SHAPE.head_dim, seed=1), numbers(SHAPE.head_dim, seed=2)
    vector = backend.kernels.vector
    normed = backend.kernels.head_norm(backend.give(qkv.reshape(5, -1)), vector(query_weight), vector(key_weight), 1e-5)
    queries, keys, values = np.split(qkv.astype(np.float64), [SHAPE.num_heads, SHAPE.num_heads + SHAPE.num_kv_heads], 1)
    expected = [rms_norm(queries, query_weight, 1e-5), rms_norm(keys, key_weight, 1e-5), values]
    backend.assert_near(normed, np.concatenate(expected, axis=1).reshape(5, -1))


def test_silu_and_mul_gates_the_second_half_by_the_first(backend):
    gate, up = numbers(6, 40) * 3, numbers(6, 40, seed=1)
    found = backend.kernels.silu_and_mul(backend.give(np.concatenate([gate, up], axis=1)))
    backend.assert_near(found, gate / (1 + np.exp(-gate.astype(np.float64))) * up)


def test_the_wanted_rows_are_gathered_and_finished_without_padding(backend):
    x = numbers(40, 32)
    batch = PagedSequences(3, block_size=BLOCK_SIZE).step([(0, [1] * 30), (1, [1]), (2, [1] * 9)])
    backend.kernels.begin(batch)
    found = backend.kernels.finish(backend.kernels.gather_rows(backend.give(x)))
    assert len(found) == 3
    backend.assert_near(found, x[[29, 30, 39]])


class Sequences:
    """Random queries, keys and values of whole sequences, run step by step and attended at once."""

    def __init__(self, backend: Backend, num_sequences: int, longest: int, seed: int = 0) -> None:
        self.backend = backend
        self.qkv = numbers(num_sequences, longest, NUM_HEADS, SHAPE.head_dim, seed=seed)
        self.paged = PagedSequences(num_sequences, block_size=BLOCK_SIZE, num_blocks=NUM_BLOCKS, seed=seed)
        self.lookup = backend.kernels.table(Rows(numbers(1, 8)))

    def run(self, runs: list[tuple[int, int]], layer: int = 0) -> np.ndarray:
        """runs: (sequence, number of its next rows) -> [T, heads * head_dim]"""
        starts = [len(self.paged.tokens[sequence]) for sequence, _ in runs]
        batch = self.paged.step([(sequence, [0] * number) for sequence, number in runs])
        rows = [self.qkv[run[0], start : start + run[1]] for run, start in zip(runs, starts, strict=True)]
        return self.attend(batch, np.concatenate(rows), layer)

    def attend(self, batch: StepBatch, qkv: np.ndarray, layer: int) -> np.ndarray:
        kernels = self.backend.kernels
        kernels.begin(batch)
        padding = len(self.lookup()) - len(qkv)  # a back end may compute more rows than there are
        padded = np.concatenate([qkv, numbers(padding, *qkv.shape[1:])])
        queries = kernels.rope_and_cache_write(layer, self.backend.heads(padded))
        return self.backend.take(kernels.paged_attention(layer, queries))[: batch.num_rows]

    def expected(self, sequence: int) -> np.ndarray:
        """[longest, heads * head_dim]"""
        queries, keys, values = np.split(
            self.qkv[sequence], [SHAPE.num_heads, SHAPE.num_heads + SHAPE.num_kv_heads], axis=1
        )
        positions, frequencies = np.arange(len(queries)), np.array(SHAPE.inverse_frequencies)
        turned = [rotate_halves(heads, positions, frequencies) for heads in (queries, keys)]
        return causal_attention(*turned, values).reshape(len(queries), -1)


def test_prompts_chunks_and_single_rows_of_one_step_attend_to_their_own_past(backend):
    sequences = Sequences(backend, 4, 30)
    sequences.run([(0, 11), (1, 29)])
    rows = sequences.run([(2, 1), (1, 1), (0, 3), (3, 30)])
    parts = [(2, 0, 1), (1, 29, 30), (0, 11, 14), (3, 0, 30)]
    expected = np.concatenate([sequences.expected(sequence)[begin:end] for sequence, begin, end in parts])
    backend.assert_near(rows, expected)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(plans=st.lists(st.dictionaries(st.integers(0, 3), st.integers(1, 9), min_size=1), min_size=1, max_size=5))
def test_any_steps_attend_as_the_whole_sequences_do(backend, plans):
    backend.kernels.allocate_cache(NUM_BLOCKS)
    sequences = Sequences(backend, 4, 45)
    done = [0] * 4
    for plan in plans:
        rows = sequences.run(list(plan.items()))
        expected = []
        for sequence, number in plan.items():
            expected.append(sequences.expected(sequence)[done[sequence] : done[sequence] + number])
            done[sequence] += number
        backend.assert_near(rows, np.concatenate(expected))


def test_contexts_of_very_different_lengths_attend_in_one_step(backend):
    sequences = Sequences(backend, 4, 320)
    sequences.run([(0, 319), (1, 5), (2, 90)])
    rows = sequences.run([(0, 1), (1, 1), (2, 1), (3, 1)])
    at = zip(range(4), (319, 5, 90, 0), strict=True)
    backend.assert_near(rows, np.stack([sequences.expected(sequence)[position] for sequence, position in at]))


def test_layers_have_caches_of_their_own(backend):
    sequences = Sequences(backend, 2, 8)
    sequences.run([(0, 7)], layer=0)
    other = Sequences(backend, 2, 8, seed=1)
    other.run([(0, 7)], layer=1)
    sequences.paged.tables[0] = other.paged.tables[0]
    expected = other.expected(0)[7:8]
    backend.assert_near(other.run([(0, 1)], layer=NUM_LAYERS - 1), expected)


def test_numbers_that_overflowed_do_not_outlive_their_sequence(backend):
    """A block that was freed is read, masked, by the next sequence: 0 times not-a-number is not a number."""
    sequences = Sequences(backend, 2, 12)
    sequences.qkv[0, 3:] = np.nan
    sequences.qkv[0, 2] = np.inf
    with np.errstate(invalid="ignore"):
        sequences.run([(0, 12)])
    sequences.paged.forget(0)
    backend.assert_near(sequences.run([(1, 9)]), sequences.expected(1)[:9])
    backend.assert_near(sequences.run([(1, 1)]), sequences.expected(1)[9:10])


def test_block_bytes_cover_a_block_of_all_layers(backend):
    values = NUM_LAYERS * 2 * SHAPE.num_kv_heads * SHAPE.head_dim * BLOCK_SIZE
    assert backend.kernels.block_bytes % values == 0 and backend.kernels.block_bytes // values in (2, 4, 8)
