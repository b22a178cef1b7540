"""Decoders of GGML's super-blocks of 256 values (ggml-common.h: block_q4_K, block_q5_K, block_q6_K).

Each takes [blocks, bytes] and fills [blocks, 256]. Sub-blocks have their own small scales.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint.blocks_32 import halves

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


def decode_q4_k(blocks: Bytes, out: Floats) -> None:
    scale_and_shift(blocks, low_and_high(blocks[:, 16:]), out)


def decode_q5_k(blocks: Bytes, out: Floats) -> None:
    fifth = np.unpackbits(blocks[:, 16:48, None], axis=2, bitorder="little")  # [blocks, 32, sub-block]
    scale_and_shift(blocks, low_and_high(blocks[:, 48:]) | (fifth.swapaxes(1, 2) << np.uint8(4)), out)


def decode_q6_k(blocks: Bytes, out: Floats) -> None:
    # Each half of 128 values: 64 bytes of low nibbles, 32 bytes of upper bit pairs.
    count = len(blocks)
    low = blocks[:, 0:128].reshape(count, 2, 1, 64)
    low = np.concatenate([low & 15, low >> 4], axis=2).reshape(count, 2, 4, 32)
    high = blocks[:, 128:192].reshape(count, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
    quants = low | ((high & 3) << 4)

    values = out.reshape(count, 16, 16)
    values[:] = quants.reshape(count, 16, 16)
    values -= np.float32(32)
    values *= (blocks[:, 192:208].view(np.int8) * halves(blocks[:, 208:210]))[:, :, None]


def scale_and_shift(blocks: Bytes, quants: Bytes, out: Floats) -> None:
    """out = scale * quants - minimum, for eight sub-blocks of 32; quants is [blocks, 8, 32]."""
    scales, minima = six_bit_pairs(blocks[:, 4:16])
    values = out.reshape(len(blocks), 8, 32)
    values[:] = quants
    values *= (halves(blocks[:, 0:2]) * scales)[:, :, None]
    values -= (halves(blocks[:, 2:4]) * minima)[:, :, None]


def six_bit_pairs(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Eight scales and eight minima of 6 bits out of 12 bytes.

    Bytes 0-3 and 4-7 hold the first four of each in their lower six bits; bytes 8-11 hold the lower four bits of
    the last four (scale low, minimum high), whose upper two bits are the upper bits of bytes 0-3 and 4-7.
    """
    scale, minimum, rest = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([scale & 63, (rest & 15) | (scale >> 6 << 4)], axis=1)
    minima = np.concatenate([minimum & 63, (rest >> 4) | (minimum >> 6 << 4)], axis=1)
    return scales, minima


def low_and_high(packed: Bytes) -> Bytes:
    """[blocks, 128] -> [blocks, 8, 32]: each run of 32 bytes has one sub-block low and the next one high."""
    runs = packed.reshape(len(packed), 4, 1, 32)
    return np.concatenate([runs & 15, runs >> 4], axis=2).reshape(len(packed), 8, 32)
