"""Decoders of GGML's blocks of 32 values (ggml-common.h: block_q8_0, block_q4_0, ...).

Each takes [blocks, bytes] and fills [blocks, 32]. A byte of quants holds value i low and value i + 16 high.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


def decode_q8_0(blocks: Bytes, out: Floats) -> None:
    out[:] = blocks[:, 2:].view(np.int8)
    out *= halves(blocks[:, 0:2])


def decode_q4_0(blocks: Bytes, out: Floats) -> None:
    out[:] = nibbles(blocks[:, 2:])
    out -= np.float32(8)
    out *= halves(blocks[:, 0:2])


def decode_q4_1(blocks: Bytes, out: Floats) -> None:
    out[:] = nibbles(blocks[:, 4:])
    out *= halves(blocks[:, 0:2])
    out += halves(blocks[:, 2:4])


def decode_q5_0(blocks: Bytes, out: Floats) -> None:
    out[:] = nibbles(blocks[:, 6:]) | fifth_bits(blocks[:, 2:6])
    out -= np.float32(16)
    out *= halves(blocks[:, 0:2])


def decode_q5_1(blocks: Bytes, out: Floats) -> None:
    out[:] = nibbles(blocks[:, 8:]) | fifth_bits(blocks[:, 4:8])
    out *= halves(blocks[:, 0:2])
    out += halves(blocks[:, 2:4])


def halves(columns: Bytes) -> Floats:
    """float16 columns, two bytes each, as float32."""
    return np.ascontiguousarray(columns).view("<f2").astype(np.float32)


def nibbles(packed: Bytes) -> Bytes:
    """[blocks, 16] -> [blocks, 32], one value a byte."""
    dense = np.ascontiguousarray(packed).view(np.uint32)  # four bytes at a time, mask keeps them apart
    values = np.empty((len(packed), 8), np.uint32)
    values[:, :4] = dense & 0x0F0F0F0F
    values[:, 4:] = (dense >> 4) & 0x0F0F0F0F
    return values.view(np.uint8)


def fifth_bits(packed: Bytes) -> Bytes:
    """[blocks, 4] -> [blocks, 32]: bit i of the 32-bit word, as 0 or 16."""
    return np.unpackbits(packed, axis=1, bitorder="little") << np.uint8(4)
