from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.kernels.cpu.attention import attend_tile
from engine.kernels.cpu.canonical import COARSE, FINE, LengthRule, Probe, agreeing_rule, hiding
from engine.kernels.port import AttentionShape


@given(st.sampled_from([FINE, COARSE]), st.integers(1, 9000), st.sampled_from([1, 8, 16, 24, 32, 128]))
def test_a_padded_context_holds_the_length_in_whole_blocks_and_outside_the_gap(rule, length, block_size):
    padded = rule.padded(length, block_size)
    assert padded >= length and padded % block_size == 0 and padded % rule.unit == 0
    assert not rule.gap[0] < padded % 512 < rule.gap[1]


@given(st.integers(1, 9000))
def test_padding_is_never_more_than_the_gap(length):
    assert FINE.padded(length, 16) - length < 208


@pytest.mark.parametrize("shape", [(9, 3, 64), (14, 2, 64), (8, 8, 64), (16, 8, 128), (4, 1, 80)], ids=str)
def test_a_rule_is_found_for_the_shapes_of_common_models(shape):
    with torch.inference_mode():
        assert agreeing_rule(AttentionShape(*shape, ())) is not None


def test_the_probe_refuses_a_rule_under_which_numbers_differ():
    with torch.inference_mode():
        probe = Probe(3, 64)
        if probe.padding_agrees(LengthRule(1, (0, 0))):
            pytest.skip("on this machine any length gives the same bits")
        assert not probe.agrees(LengthRule(1, (0, 0)))


def test_stale_slots_behind_the_mask_do_not_matter():
    with torch.inference_mode():
        probe = Probe(3, 64)
        before = probe.alone(99, 192)
        probe.keys[:, :, 100:], probe.values[:, :, 100:] = 6e4, -6e4
        assert torch.equal(probe.alone(99, 192), before)


def test_few_rows_of_a_tile_are_padded_and_only_they_returned():
    with torch.inference_mode():
        queries, keys, values = torch.randn(2, 3, 8), torch.randn(1, 1, 32, 8), torch.randn(1, 1, 32, 8)
        found = attend_tile(queries, keys, values, hiding(torch.tensor([0, 1, 1, 1]), 32))
    assert found.shape == queries.shape
    torch.testing.assert_close(found[0], values[0, 0, :1].expand(3, 8))
