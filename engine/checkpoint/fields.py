"""Typed look-ups in a key-value table that came out of a model file.

Owns the sentence said when a key is missing or has the wrong type. Knows no key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from engine.base.errors import ModelFileError

T = TypeVar("T")


class Fields:
    """One table and the file it is from. A JSON null counts as absent; every fault is a ModelFileError."""

    def __init__(self, source: str, table: Mapping[str, object]) -> None:
        self.source = source
        self.table = table

    def fault(self, reason: str) -> ModelFileError:
        return ModelFileError(f"{self.source}: {reason}")

    def has(self, key: str) -> bool:
        return self.table.get(key) is not None

    def required(self, key: str) -> object:
        found = self.table.get(key)
        if found is None:
            raise self.fault(f"{key} is missing")
        return found

    def count(self, key: str) -> int:
        """An integer of at least 1."""
        found = self.required(key)
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            raise self.fault(f"{key} is {found!r}, not a positive integer")
        return found

    def count_or(self, key: str, default: T) -> int | T:
        return self.count(key) if self.has(key) else default

    def number(self, key: str) -> float:
        """A finite integer or float, as a float."""
        found = self.required(key)
        if isinstance(found, bool) or not isinstance(found, int | float) or not is_finite(found):
            raise self.fault(f"{key} is {found!r}, not a finite number")
        return float(found)

    def positive(self, key: str) -> float:
        found = self.number(key)
        if found <= 0:
            raise self.fault(f"{key} is {found!r}, not more than 0")
        return found

    def number_or(self, key: str, default: T) -> float | T:
        return self.number(key) if self.has(key) else default

    def positive_or(self, key: str, default: T) -> float | T:
        return self.positive(key) if self.has(key) else default

    def flag_or(self, key: str, default: T) -> bool | T:
        found = self.table.get(key)
        if found is None:
            return default
        if not isinstance(found, bool):
            raise self.fault(f"{key} is {found!r}, not true or false")
        return found

    def text(self, key: str) -> str:
        found = self.required(key)
        if not isinstance(found, str):
            raise self.fault(f"{key} is {found!r}, not a string")
        return found

    def text_or(self, key: str, default: T) -> str | T:
        return self.text(key) if self.has(key) else default

    def whole_or(self, key: str, default: T) -> int | T:
        """An integer of at least 0: a token id, or a count that 0 turns off."""
        found = self.table.get(key)
        if found is None:
            return default
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise self.fault(f"{key} is {found!r}, not an integer of at least 0")
        return found

    def token_ids(self, key: str) -> tuple[int, ...]:
        """One id, or a list of ids; absent is the empty tuple."""
        found = self.table.get(key)
        listed = found if isinstance(found, list) else [] if found is None else [found]
        for token in listed:
            if isinstance(token, bool) or not isinstance(token, int) or token < 0:
                raise self.fault(f"{key} is {found!r}, not a token id or a list of token ids")
        return tuple(listed)

    def section(self, key: str) -> Fields | None:
        found = self.table.get(key)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise self.fault(f"{key} is {found!r}, not an object")
        return Fields(f"{self.source}: {key}", found)


def shortest(number: float) -> float:
    """GGUF holds float32: 1e-5 comes back as 9.99999974e-06, and is meant as 1e-5; the float32 stays the same."""
    return float(str(np.float32(number)))


def is_finite(number: int | float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the largest float
        return False
