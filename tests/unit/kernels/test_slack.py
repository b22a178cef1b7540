from __future__ import annotations

import ctypes

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.kernels.cpu.linear_half import HalfPackedFormat, HalfPackedLinear
from engine.kernels.cpu.slack import MARGIN, PAGE, Block, Slack, block_size, release, since
from engine.kernels.machine import this_machine

MIB = 1 << 20
# Weights here take more than 32 MiB: glibc gives those pages of their own in every process, however old.
needs_fbgemm = pytest.mark.skipif(not this_machine().has_fbgemm, reason="FBGEMM is on x86 only")


@needs_fbgemm
@pytest.mark.parametrize(("outputs", "inputs"), [(17_000, 576), (34_000, 33)])
def test_the_padding_of_packed_weights_goes_back_and_their_products_stay(outputs, inputs):
    x, weight = torch.randn(37, inputs), torch.randn(outputs, inputs)
    with torch.inference_mode():
        weights = HalfPackedFormat()
        layers = [weights.pack(weight, None) for _ in range(2)]
        expected = layers[1](x)
        before = psutil.Process().memory_info().rss
        weights.settle()
        freed = before - psutil.Process().memory_info().rss
        assert all(torch.equal(layer(x), expected) for layer in layers)
    unused = 2 * outputs * (-inputs % 512) * 2
    assert unused - 2 * (2 * PAGE + MARGIN) - MIB < freed < unused + MIB


@needs_fbgemm
def test_a_size_of_which_another_number_is_found_is_left_alone():
    with torch.inference_mode():
        slack = Slack()
        layers = [HalfPackedLinear(torch.randn(34_000, 33), None) for _ in range(2)]
        assert slack.give_back([(34_000, 33)]) == 0
        assert slack.give_back([(34_000, 33)] * 3) == 0
        assert slack.give_back([(34_000, 33)] * len(layers)) > 60 * MIB


@needs_fbgemm
def test_weights_without_padding_have_nothing_to_give_back():
    with torch.inference_mode():
        slack = Slack()
        layer = HalfPackedLinear(torch.randn(34_000, 512), None)
        assert slack.give_back([(34_000, 512)]) == 0
        assert layer(torch.randn(3, 512)).shape == (3, 34_000)


def test_memory_that_is_not_zero_is_never_given_back():
    held = np.zeros(64 * PAGE, np.uint8)
    start = -(-held.ctypes.data // PAGE) * PAGE
    held[-2 * PAGE :] = 7
    assert release(Block(start, 62 * PAGE, used=100)) == 0
    assert held[-1] == 7


def test_whole_pages_behind_the_numbers_are_given_back():
    held = np.ones(64 * PAGE, np.uint8)
    start = -(-held.ctypes.data // PAGE) * PAGE
    ctypes.memset(start + PAGE + 1, 0, 61 * PAGE)
    assert release(Block(start, 60 * PAGE, used=PAGE + 1)) == 58 * PAGE
    first = start - held.ctypes.data
    assert held[: first + PAGE + 1].all() and not held[first + PAGE + 1 : first + 60 * PAGE].any()


@pytest.mark.parametrize("header", [b"", bytes(64), b"\xff" * 64, bytes(48) + (48).to_bytes(8, "little") + bytes(8)])
def test_what_is_not_the_header_of_an_aligned_block_has_no_size(header):
    assert block_size(header) is None


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=8)


def disjoint(drawn: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals in order, from (gap, length) pairs."""
    found, at = [], 0
    for gap, length in drawn:
        found.append((at + gap, at + gap + length))
        at += gap + length
    return found


@given(spans, spans)
def test_what_came_since_is_what_is_mapped_now_and_was_not_before(before, after):
    before, after = disjoint(before), disjoint(after)
    expected = {at for start, end in after for at in range(start, end)}
    expected -= {at for start, end in before for at in range(start, end)}
    assert sorted(at for start, end in since(before, after) for at in range(start, end)) == sorted(expected)
