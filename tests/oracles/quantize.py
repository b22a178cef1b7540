"""Encodes float32 values as GGML blocks, following the reference quantisers' formulas. For writing test files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def encode(values: NDArray[np.floating], encoding: str = "F32") -> bytes:
    """The bytes of `values` (any shape, last dimension a multiple of the block) in `encoding`."""
    return ENCODERS[encoding](np.ascontiguousarray(values, dtype=np.float32)).tobytes()


def bfloat16(values: Floats) -> NDArray[np.uint16]:
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)  # round to nearest even


def q8_0(values: Floats) -> Bytes:
    blocks = values.reshape(-1, 32)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    scaled = blocks * inverse(scale)
    quants = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int8)
    return join(half(scale), quants.view(np.uint8))


def q4_0(values: Floats) -> Bytes:
    blocks = values.reshape(-1, 32)
    scale = extreme(blocks) / np.float32(-8)
    quants = np.clip(blocks * inverse(scale) + np.float32(8.5), 0, 15).astype(np.uint8)
    return join(half(scale), nibbles(quants))


def q4_1(values: Floats) -> Bytes:
    blocks = values.reshape(-1, 32)
    low = blocks.min(axis=1, keepdims=True)
    scale = (blocks.max(axis=1, keepdims=True) - low) / np.float32(15)
    quants = np.clip((blocks - low) * inverse(scale) + np.float32(0.5), 0, 15).astype(np.uint8)
    return join(half(scale), half(low), nibbles(quants))


def q5_0(values: Floats) -> Bytes:
    blocks = values.reshape(-1, 32)
    scale = extreme(blocks) / np.float32(-16)
    quants = np.clip(blocks * inverse(scale) + np.float32(16.5), 0, 31).astype(np.uint8)
    return join(half(scale), fifth_bits(quants), nibbles(quants & 15))


def q5_1(values: Floats) -> Bytes:
    blocks = values.reshape(-1, 32)
    low = blocks.min(axis=1, keepdims=True)
    scale = (blocks.max(axis=1, keepdims=True) - low) / np.float32(31)
    quants = np.clip((blocks - low) * inverse(scale) + np.float32(0.5), 0, 31).astype(np.uint8)
    return join(half(scale), half(low), fifth_bits(quants), nibbles(quants & 15))


def extreme(blocks: Floats) -> Floats:
    """The value of largest magnitude of each block, with its sign."""
    return np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1, keepdims=True), axis=1)


def inverse(scale: Floats) -> Floats:
    return np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)


def half(column: Floats) -> Bytes:
    return column.astype("<f2").view(np.uint8)


def nibbles(quants: Bytes) -> Bytes:
    """Value i in the low half of byte i, value i + 16 in the high half."""
    return quants[:, :16] | (quants[:, 16:] << 4)


def fifth_bits(quants: Bytes) -> Bytes:
    return np.packbits(quants >> 4, axis=1, bitorder="little")


def join(*columns: Bytes) -> Bytes:
    return np.concatenate(columns, axis=1)


ENCODERS: dict[str, Callable[[Floats], NDArray[np.generic]]] = {
    "F32": lambda values: values.astype("<f4"),
    "F16": lambda values: values.astype("<f2"),
    "BF16": bfloat16,
    "Q8_0": q8_0,
    "Q4_0": q4_0,
    "Q4_1": q4_1,
    "Q5_0": q5_0,
    "Q5_1": q5_1,
}
