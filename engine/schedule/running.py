"""The requests that run, in policy order, and the worker's slots that they sit in.

Knows nothing of blocks or tokens.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator
from operator import attrgetter

from engine.schedule.request import Request, State
from engine.wire.tokens import pack

by_key = attrgetter("key")


class Running:
    """Sorted by key. A slot given back may be taken again at once: the worker releases before it admits."""

    def __init__(self, num_slots: int) -> None:
        self.requests: list[Request] = []
        self.free_slots = list(range(num_slots - 1, -1, -1))
        self.released = array("i")
        """Slots that the worker has not yet been told to forget."""

    @property
    def has_slot(self) -> bool:
        return bool(self.free_slots)

    def enter(self, request: Request) -> None:
        request.move(State.RUNNING)
        request.slot = self.free_slots.pop()
        insort(self.requests, request, key=by_key)

    def leave(self, request: Request, state: State) -> None:
        request.move(state)
        place = bisect_left(self.requests, request.key, key=by_key)
        assert self.requests[place] is request, "only a running request leaves"
        del self.requests[place]
        self.free_slots.append(request.slot)
        self.released.append(request.slot)
        request.slot = -1

    def last(self) -> Request:
        """The one that everybody else comes before."""
        return self.requests[-1]

    def take_released(self) -> bytes:
        """Slots given back since the last plan, as int32 wire bytes."""
        released, self.released = self.released, array("i")
        return pack(released)

    def __iter__(self) -> Iterator[Request]:
        """In policy order. Removing from the end while iterating is fine: the removed are not visited."""
        return iter(self.requests)

    def __len__(self) -> int:
        return len(self.requests)
