"""Shapes of attention calls whose numbers agree, whatever a row's neighbours and padding are.

Owns two rules for padded context lengths, and the probe that picks one on this machine. Matrix libraries choose
kernels by shape, and some of these round differently; masked padding to shapes that agree costs a little, and is exact.
"""

from __future__ import annotations

from math import lcm
from typing import NamedTuple

import torch

from engine.kernels.cpu.attention import LEAST_QUERIES, attend_rows, attend_tile
from engine.kernels.port import AttentionShape

PIECE = 512
"""Context that torch's attention takes at a time: only its last piece has a length of its own."""
PROBED_LENGTH = 3 * PIECE
LARGEST_TILE = 256


class LengthRule(NamedTuple):
    """Context lengths that may stand in a call: multiples of `unit` outside a gap in the last piece."""

    unit: int
    gap: tuple[int, int]

    def padded(self, length: int, block_size: int) -> int:
        """The least length allowed that holds `length` in whole blocks."""
        unit = lcm(self.unit, block_size)
        padded = -(-length // unit) * unit
        while self.gap[0] < padded % PIECE < self.gap[1]:
            padded += unit
        return padded


FINE = LengthRule(16, (192, 384))
COARSE = LengthRule(PIECE, (0, 0))


def agreeing_rule(shape: AttentionShape) -> LengthRule | None:
    """The rule with the least padding that holds here; None: neither does."""
    probe = Probe(shape.num_heads // shape.num_kv_heads, shape.head_dim)
    return next((rule for rule in (FINE, COARSE) if probe.agrees(rule)), None)


class Probe:
    """Random queries, keys and values of one sequence with one key head."""

    def __init__(self, num_heads: int, head_dim: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.num_heads = num_heads
        self.queries = torch.randn(PROBED_LENGTH, num_heads, head_dim, generator=generator)
        self.keys, self.values = torch.randn(2, 1, 1, PROBED_LENGTH, head_dim, generator=generator)

    def agrees(self, rule: LengthRule) -> bool:
        """Whether rows attend alike at every padding, and in tiles of several sizes, at a sample of positions."""
        return self.padding_agrees(rule) and self.tiles_agree(rule)

    def padding_agrees(self, rule: LengthRule) -> bool:
        return all(
            torch.equal(self.alone(position, rule.padded(position + 1, 1)), self.alone(position, PROBED_LENGTH))
            for position in range(5, PROBED_LENGTH - LARGEST_TILE, 53)
        )

    def tiles_agree(self, rule: LengthRule) -> bool:
        for first in (0, 100, 700):
            for number in (2, 37, LARGEST_TILE):
                rows = self.tile(first, number, rule.padded(first + number, 1))
                for row in (0, number // 2, number - 1):
                    alone = self.alone(first + row, rule.padded(first + row + 1, 1))
                    if not torch.equal(rows[row], alone):
                        return False
        return True

    def alone(self, position: int, slots: int) -> torch.Tensor:
        """[heads, dim]"""
        mask = hiding(torch.tensor([position]), slots)
        padded = torch.zeros(1, 1, max(LEAST_QUERIES, self.num_heads), self.queries.shape[2])
        padded[0, 0, : self.num_heads] = self.queries[position]
        attended = attend_rows(padded, self.keys[:, :, :slots], self.values[:, :, :slots], mask)
        return attended[0, 0, : self.num_heads]

    def tile(self, first: int, number: int, slots: int) -> torch.Tensor:
        """[number, heads, dim]"""
        mask = hiding(first + torch.arange(max(number, LEAST_QUERIES)).clamp_(max=number - 1), slots)
        queries = self.queries[first : first + number]
        return attend_tile(queries, self.keys[:, :, :slots], self.values[:, :, :slots], mask)


def hiding(positions: torch.Tensor, slots: int) -> torch.Tensor:
    """[rows, slots]: -inf beyond each row's position."""
    hidden = torch.arange(slots) > positions[:, None]
    return torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
