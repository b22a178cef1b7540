"""How a tensor's values lie in a file: number formats and their blocks.

Owns the names and the sizes. Knows no file format and decodes nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Encoding(StrEnum):
    """A plain number format, or a GGML block format (ggml-common.h)."""

    F32 = "F32"
    F16 = "F16"
    BF16 = "BF16"
    Q8_0 = "Q8_0"
    Q4_0 = "Q4_0"
    Q4_1 = "Q4_1"
    Q5_0 = "Q5_0"
    Q5_1 = "Q5_1"
    Q4_K = "Q4_K"
    Q5_K = "Q5_K"
    Q6_K = "Q6_K"

    @property
    def block(self) -> Block:
        return BLOCKS[self]

    @property
    def is_quantized(self) -> bool:
        return self.block.values > 1

    def num_bytes(self, shape: tuple[int, ...]) -> int:
        """Size of a tensor whose last dimension is whole blocks; shape is outermost first."""
        values = 1
        for length in shape:
            values *= length
        return values // self.block.values * self.block.bytes


class Block(NamedTuple):
    """The smallest piece that decodes alone; blocks run along the last dimension, never across rows."""

    values: int
    bytes: int


BLOCKS = {
    Encoding.F32: Block(1, 4),
    Encoding.F16: Block(1, 2),
    Encoding.BF16: Block(1, 2),
    Encoding.Q8_0: Block(32, 2 + 32),  # scale, quants
    Encoding.Q4_0: Block(32, 2 + 16),  # scale, quants
    Encoding.Q4_1: Block(32, 2 + 2 + 16),  # scale, minimum, quants
    Encoding.Q5_0: Block(32, 2 + 4 + 16),  # scale, fifth bits, quants
    Encoding.Q5_1: Block(32, 2 + 2 + 4 + 16),  # scale, minimum, fifth bits, quants
    Encoding.Q4_K: Block(256, 2 + 2 + 12 + 128),  # scale, minimum, eight 6-bit pairs, quants
    Encoding.Q5_K: Block(256, 2 + 2 + 12 + 32 + 128),  # the same with fifth bits
    Encoding.Q6_K: Block(256, 128 + 64 + 16 + 2),  # low bits, high bits, sixteen scales, scale
}
