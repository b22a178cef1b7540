"""Who holds which KV block: free blocks, reference counts, and cached blocks that may be evicted.

Knows nothing of what a block contains, only whether it is worth keeping.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush


class BlockPool:
    """Every block is in exactly one state: free, held (by one or more tables), or idle: kept, held by nobody.

    Free blocks go first, lowest number first: that gives long ascending runs, and touches no more memory than
    is needed. Then the idle block that was let go longest ago is evicted; `evicted` hears of it.
    """

    def __init__(self, num_blocks: int, evicted: Callable[[int], None]) -> None:
        self.num_blocks = num_blocks
        self.evicted = evicted
        self.refs = array("i", bytes(4 * num_blocks))
        self.kept = bytearray(num_blocks)
        self.free = list(range(num_blocks))
        """A heap: O(log n) both ways, and the lowest number first."""
        self.idle: OrderedDict[int, None] = OrderedDict()
        """Oldest first. A dict would walk over its own gaps to find its first entry; this one does not."""

    @property
    def num_available(self) -> int:
        """Blocks that take() can hand out now."""
        return len(self.free) + len(self.idle)

    @property
    def num_held(self) -> int:
        return self.num_blocks - self.num_available

    def num_idle_of(self, blocks: Iterable[int]) -> int:
        """How many of these are idle: sharing them makes so many fewer available."""
        return sum(self.refs[block] == 0 for block in blocks)

    def take(self, count: int) -> list[int]:
        """`count` blocks, ascending, each held once. The caller has seen that so many are available."""
        assert count <= self.num_available, "more blocks taken than there are"
        blocks = [heappop(self.free) for _ in range(min(count, len(self.free)))]
        blocks.extend(self.evict() for _ in range(count - len(blocks)))
        for block in blocks:
            self.refs[block] = 1
        blocks.sort()
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """One more holder for each of these kept blocks."""
        for block in blocks:
            if self.refs[block] == 0:
                del self.idle[block]
            self.refs[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """One holder fewer for each block of a table, given in table order.

        The deepest become idle first and so are evicted first: a beginning is worth more than what follows it.
        """
        for block in reversed(blocks):
            assert self.refs[block] > 0, "a block was released more often than held"
            self.refs[block] -= 1
            if self.refs[block] == 0:
                self.put_down(block)

    def put_down(self, block: int) -> None:
        if self.kept[block]:
            self.idle[block] = None
        else:
            heappush(self.free, block)

    def evict(self) -> int:
        block, _ = self.idle.popitem(last=False)
        self.kept[block] = False
        self.evicted(block)
        return block

    def keep(self, block: int) -> None:
        """A held block's content is worth keeping when its last holder lets go."""
        assert self.refs[block] > 0, "only a held block can become worth keeping"
        self.kept[block] = True

    def forget(self, block: int) -> None:
        """A held block's content is worth nothing any more."""
        assert self.refs[block] > 0, "an idle block is forgotten by eviction"
        self.kept[block] = False

    def forget_all(self) -> None:
        """Every block is free, as in the beginning. Only when none is held."""
        assert self.num_held == 0, "blocks are held"
        self.idle.clear()
        self.kept = bytearray(self.num_blocks)
        self.free = list(range(self.num_blocks))
