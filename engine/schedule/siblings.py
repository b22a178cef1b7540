"""Requests that wait for a sibling's prompt (n > 1), so that its full blocks are computed once and shared.

They stand outside the queue: they hold up nobody, and cost a step nothing.
"""

from __future__ import annotations

from engine.schedule.request import Request


class Siblings:
    """Followers by the id of the leader they wait for."""

    def __init__(self) -> None:
        self.followers: dict[int, dict[int, Request]] = {}
        self.count = 0

    def park(self, request: Request) -> None:
        self.followers.setdefault(request.leader, {})[request.id] = request
        self.count += 1

    def free(self, leader: int) -> list[Request]:
        """Those who waited for this leader, and do so no longer; in the order they came."""
        freed = self.followers.pop(leader, {})
        self.count -= len(freed)
        return list(freed.values())

    def discard(self, request: Request) -> None:
        """Takes a follower out; nothing happens when it is not parked."""
        waiting = self.followers.get(request.leader, {})
        if waiting.pop(request.id, None) is None:
            return
        self.count -= 1
        if not waiting:
            del self.followers[request.leader]

    def __len__(self) -> int:
        return self.count
