"""Time and randomness are handed in; this file is the only one that asks the machine for them."""

from __future__ import annotations

import secrets
import time
from typing import Protocol


class Clock(Protocol):
    """What a room is given instead of the time module."""

    def now(self) -> float:
        """Monotonic seconds: for durations and deadlines, comparable between processes of one host."""

    def wall(self) -> float:
        """Seconds since the epoch: for timestamps that people and APIs read."""


class SystemClock:
    """The machine's clock. CLOCK_MONOTONIC is one clock for all processes of a host."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()


def entropy(bits: int = 63) -> int:
    """An unpredictable non-negative integer of that many bits: for seeds that nobody chose, and for ids."""
    return secrets.randbits(bits)
