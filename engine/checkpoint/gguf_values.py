"""Reads GGUF's basic values: integers, strings, typed arrays, one after the other.

Every length is held against the bytes that are left before anything is allocated. Knows nothing of tensors.
"""

from __future__ import annotations

import struct
from array import array
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import ModelFileError

# A typed array keeps its declared element type as its dtype; strings and nested arrays are lists.
Value: TypeAlias = "str | int | float | bool | NDArray[Any] | list[str] | list[Value]"

NUMBERS: dict[int, np.dtype[Any]] = {  # value type -> little-endian layout
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}
BOOL, STRING, ARRAY = 7, 8, 9
MAX_DEPTH = 4  # arrays of arrays; the format sets no bound, no known file has more than two

U32 = struct.Struct("<I")
U64 = struct.Struct("<Q")


class ValueReader:
    """Reads forward from byte `at`; raises ModelFileError naming the file, the thing read and the bytes missing."""

    def __init__(self, path: Path, view: memoryview, at: int) -> None:
        self.path = path
        self.view = view
        self.at = at

    @property
    def left(self) -> int:
        return len(self.view) - self.at

    def fault(self, reason: str) -> ModelFileError:
        return ModelFileError(f"{self.path} is not a valid GGUF file: {reason}")

    def u32(self, what: str) -> int:
        return int(U32.unpack(self.take(4, what))[0])

    def u64(self, what: str) -> int:
        return int(U64.unpack(self.take(8, what))[0])

    def count(self, what: str, least_bytes: int) -> int:
        """A number of things that take at least `least_bytes` each."""
        number = self.u64(what)
        if number * least_bytes > self.left:
            raise self.fault(f"{what} is {number}, impossible in the {self.left} bytes that are left of the file")
        return number

    def string(self, what: str) -> str:
        return self.decode(self.take(self.u64(f"the length of {what}"), what), what)

    def value(self, what: str) -> Value:
        return self.typed(self.u32(f"the type of {what}"), what, 0)

    def typed(self, kind: int, what: str, depth: int) -> Value:
        if kind == STRING:
            return self.string(what)
        if kind == ARRAY:
            return self.sequence(what, depth + 1)
        if kind == BOOL:
            return bool(self.booleans(1, what)[0])
        if kind in NUMBERS:
            number: int | float = self.numbers(NUMBERS[kind], 1, what)[0].item()
            return number
        raise self.fault(f"{what} has the unknown value type {kind}")

    def sequence(self, what: str, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise self.fault(f"{what} nests arrays more than {MAX_DEPTH} deep")
        kind = self.u32(f"the element type of {what}")
        if kind == STRING:
            return self.strings(self.count(f"the length of {what}", 8), what)
        if kind == ARRAY:
            length = self.count(f"the length of {what}", 12)
            return [self.sequence(what, depth + 1) for _ in range(length)]
        if kind == BOOL:
            return self.booleans(self.count(f"the length of {what}", 1), what)
        if kind in NUMBERS:
            dtype = NUMBERS[kind]
            return self.numbers(dtype, self.count(f"the length of {what}", dtype.itemsize), what)
        raise self.fault(f"{what} has the unknown element type {kind}")

    def strings(self, count: int, what: str) -> list[str]:
        """The hot part of a load: vocabularies have 50,000 to 250,000 entries, twice.

        First a walk over the lengths, then one copy of the whole run to cut the texts from: slices of bytes
        are three times cheaper than slices of the mapping.
        """
        first = self.at
        ends = self.walk(count, what)
        raw = bytes(self.view[first : self.at])
        texts: list[str] = []
        append = texts.append
        start = 8
        try:
            for end in ends:
                append(raw[start:end].decode())
                start = end + 8
        except UnicodeDecodeError:
            raise self.fault(f"entry {len(texts)} of {what} is not UTF-8") from None
        return texts

    def walk(self, count: int, what: str) -> array[int]:
        """Steps over `count` strings; where each ends, counted from the first one's length field."""
        view, at, first, size = self.view, self.at, self.at, len(self.view)
        length_at = U64.unpack_from
        ends = array("q")
        append = ends.append
        for _ in range(count):
            if at + 8 > size:
                break
            at += 8 + length_at(view, at)[0]
            if at > size:
                break
            append(at - first)
        if len(ends) < count:
            missing = (at if at > size else at + 8) - size
            raise ModelFileError(f"{self.path} is cut short: {missing} bytes are missing in {what}, at byte {size}")
        self.at = at
        return ends

    def numbers(self, dtype: np.dtype[Any], count: int, what: str) -> NDArray[Any]:
        # Copied: a metadata array outlives the mapping.
        return np.frombuffer(self.take(dtype.itemsize * count, what), dtype).copy()

    def booleans(self, count: int, what: str) -> NDArray[np.bool_]:
        raw = self.numbers(NUMBERS[0], count, what)
        if raw.size and int(raw.max()) > 1:
            raise self.fault(f"{what} holds a truth value that is neither 0 nor 1")
        return raw.astype(np.bool_)

    def decode(self, raw: memoryview, what: str) -> str:
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            raise self.fault(f"{what} is not UTF-8") from None

    def take(self, size: int, what: str) -> memoryview:
        if size > self.left:
            raise ModelFileError(
                f"{self.path} is cut short: {size - self.left} bytes are missing in {what}, at byte {self.at}"
            )
        start, self.at = self.at, self.at + size
        return self.view[start : self.at]
