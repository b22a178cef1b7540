"""Who comes first: the order of requests under each policy, and the queue of those that wait.

Knows nothing of tokens, blocks or slots.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

from engine.wire.request import Submit

Key = tuple[int, float, int]
"""A request's place for life: smaller runs first. The last part is its number in this core, so no two are equal."""


def fcfs(submit: Submit, number: int) -> Key:
    """First come, first served. Arrival is the client's, so a resumed request has its old place back."""
    return (0, submit.arrival, number)


def priority(submit: Submit, number: int) -> Key:
    """Lower priority value first, then arrival. Who asks for it accepts that a high value may wait for ever."""
    return (submit.priority, submit.arrival, number)


POLICIES: dict[str, Callable[[Submit, int], Key]] = {"fcfs": fcfs, "priority": priority}


class Ordered(Protocol):
    """What has a place in policy order."""

    @property
    def key(self) -> Key: ...


Member = TypeVar("Member", bound=Ordered)


class WaitingQueue(Generic[Member]):
    """Those that wait, in policy order. push and discard cost O(log n) all in all; a glance at the head, nothing.

    A preempted request comes back with the key it always had: before everyone who was behind it.
    """

    def __init__(self) -> None:
        self.members: dict[Key, Member] = {}
        self.heap: list[Key] = []
        """Keys, with those of discarded members among them until they surface or are swept out."""

    def push(self, member: Member) -> None:
        assert member.key not in self.members, "nobody waits twice"
        self.members[member.key] = member
        heappush(self.heap, member.key)

    def head(self) -> Member | None:
        """The first in order; None when nobody waits."""
        while self.heap and self.heap[0] not in self.members:
            heappop(self.heap)
        return self.members[self.heap[0]] if self.heap else None

    def discard(self, member: Member) -> bool:
        """Takes a member out wherever it stands; False when it is not here."""
        if self.members.pop(member.key, None) is None:
            return False
        if len(self.heap) > 2 * len(self.members) + 16:
            self.sweep()
        return True

    def sweep(self) -> None:
        """Drops the keys of the discarded, once they outnumber the living: O(1) for each discard, all in all."""
        self.heap = list(self.members)
        heapify(self.heap)

    def __len__(self) -> int:
        return len(self.members)
