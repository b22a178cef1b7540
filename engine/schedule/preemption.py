"""Who gives up its blocks when there are none left. Preemption is by recomputation: nothing is swapped out."""

from __future__ import annotations

from engine.cache import KvCache
from engine.schedule.request import Request
from engine.schedule.roster import Roster


class Preemption:
    """The last in policy order yields, all of its blocks at once, and keeps its place in that order.

    So the first in order never yields and reaches its end, then the next one is first: nobody is starved, and
    no two requests take blocks from each other in turn. The yielded blocks stay findable until they are evicted,
    so whoever comes back soon computes little.
    """

    def __init__(self, roster: Roster, cache: KvCache) -> None:
        self.roster = roster
        self.cache = cache
        self.count = 0

    def find_blocks(self, request: Request) -> list[int] | None:
        """Blocks for all known tokens of a running request. None when it was last in order, and yielded itself.

        A request alone always finds them: what can never fit was refused, or failed when it outgrew the cache.
        """
        while (blocks := self.cache.extend(request.table)) is None:
            last = self.roster.running.last()
            self.roster.preempt(last)
            self.count += 1
            if last is request:
                return None
        return blocks
