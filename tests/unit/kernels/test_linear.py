"""A row's bits do not depend on how many rows are multiplied with it, in every format that claims so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kernels.cpu.linear import WeightFormat
from engine.kernels.cpu.linear_half import HalfPackedFormat
from engine.kernels.cpu.linear_mkldnn import LARGEST_CALL, ReorderedFormat
from engine.kernels.machine import this_machine

LONGEST = 400
SHAPES = [(960, 576), (576, 576), (3072, 576), (576, 1536), (100, 33)]
INVARIANT: dict[str, Callable[[], WeightFormat]] = {"float32-reordered": lambda: ReorderedFormat(torch.float32)}
if this_machine().has_fbgemm:
    INVARIANT["float16-packed"] = HalfPackedFormat
if this_machine().has_bfloat16_units:
    INVARIANT["bfloat16-reordered"] = lambda: ReorderedFormat(torch.bfloat16)


@pytest.fixture(scope="module", params=INVARIANT)
def layers(request: pytest.FixtureRequest):
    """The format, and for each shape a packed layer, its inputs and the product of all of them at once."""
    generator = torch.Generator().manual_seed(0)
    weights, found = INVARIANT[request.param](), {}
    with torch.inference_mode():
        for outputs, inputs in SHAPES:
            layer = weights.pack(torch.randn(outputs, inputs, generator=generator) * inputs**-0.5, None)
            x = torch.randn(LONGEST, inputs, generator=generator)
            found[outputs, inputs] = layer, x, layer(x[: weights.padded(LONGEST - 10)])
    return weights, found


@settings(max_examples=60)
@given(rows=st.integers(1, LONGEST - 50), first=st.integers(0, 20), shape=st.sampled_from(SHAPES))
def test_any_number_of_rows_gives_the_bits_of_all(layers, rows, first, shape):
    weights, found = layers
    layer, x, whole = found[shape]
    with torch.inference_mode():
        part = layer(x[first : first + weights.padded(rows)])
    assert torch.equal(part[:rows], whole[first : first + rows])


@given(st.integers(0, 2000))
def test_padded_counts_are_at_most_a_few_more_and_padded_themselves(rows):
    weights = HalfPackedFormat() if this_machine().has_fbgemm else ReorderedFormat(torch.float32)
    padded = weights.padded(rows)
    assert rows <= padded <= rows + 8
    assert weights.padded(padded) == padded


def test_a_batch_longer_than_a_call_is_computed_in_pieces():
    with torch.inference_mode():
        weights = ReorderedFormat(torch.float32)
        layer = weights.pack(torch.eye(40), torch.ones(40))
        x = torch.randn(2 * LARGEST_CALL + 7, 40)
        assert torch.equal(layer(x), x + 1)
        assert weights.calls[40, 40] in (1, 2, 4, 8, 16, 32, 64, 128)
