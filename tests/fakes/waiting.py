"""Waiting for what another process does, with a deadline that fails the test."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from time import monotonic


def until(is_so: Callable[[], object], timeout_s: float) -> None:
    """Returns as soon as is_so(); fails the test after timeout_s."""
    deadline, pause = monotonic() + timeout_s, Event()
    while not is_so():
        assert monotonic() < deadline, f"not so after {timeout_s} s"
        pause.wait(0.01)
