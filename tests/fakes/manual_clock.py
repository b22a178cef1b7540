"""A clock that moves only when a test says so."""

from __future__ import annotations


class ManualClock:
    """Starts at 1,000 seconds; wall time is the same."""

    def __init__(self) -> None:
        self.time_s = 1000.0

    def advance(self, seconds: float) -> None:
        self.time_s += seconds

    def now(self) -> float:
        return self.time_s

    def wall(self) -> float:
        return self.time_s
