"""Token ids at the process border: `array("i")` inside a process, little-endian int32 bytes on the wire."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable

ITEM_BYTES = 4
assert array("i").itemsize == ITEM_BYTES
NATIVE = sys.byteorder == "little"


def pack(tokens: array[int]) -> bytes:
    """array -> wire bytes."""
    if NATIVE:
        return tokens.tobytes()
    swapped = array("i", tokens)
    swapped.byteswap()
    return swapped.tobytes()


def unpack(data: bytes) -> array[int]:
    """Wire bytes -> a fresh array that the caller owns."""
    tokens = array("i")
    tokens.frombytes(data)
    if not NATIVE:
        tokens.byteswap()
    return tokens


def pack_ints(values: Iterable[int]) -> bytes:
    """Any int32 values -> wire bytes."""
    return pack(array("i", values))


def count(data: bytes) -> int:
    """How many tokens the wire bytes hold."""
    return len(data) // ITEM_BYTES
