"""What the scheduler sees of the KV cache: tables get blocks, share them, publish them and give them back.

Owns the moves between the pool and the prefix index. Knows nothing of requests, budgets or devices.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from engine.base.config import CacheConfig
from engine.cache.block import CachedBlock
from engine.cache.hashing import HashChain, extra_keys
from engine.cache.pool import BlockPool
from engine.cache.prefix import NO_MATCH, Match, PrefixIndex
from engine.cache.table import BlockTable


class CacheStats(NamedTuple):
    """A snapshot. used: held by a sequence now; cached: findable, held or not. Queries and hits in tokens."""

    blocks_total: int
    blocks_used: int
    blocks_cached: int
    prefix_queries: int
    prefix_hits: int
    hash_collisions: int


class KvCache:
    """num_blocks blocks of config.block_size tokens each. All or nothing: a call that cannot be met changes nothing."""

    def __init__(self, config: CacheConfig, num_blocks: int) -> None:
        self.block_size = config.block_size
        self.shares_prefixes = config.enable_prefix_caching
        self.prefix = PrefixIndex()
        self.pool = BlockPool(num_blocks, evicted=self.prefix.remove)
        self.capacity = num_blocks * config.block_size
        """Tokens of the longest sequence that fits when it is alone."""
        self.prefix_queries = 0
        self.prefix_hits = 0

    def table(self, tokens: array[int], cache_salt: str = "") -> BlockTable:
        """An empty table for a sequence that owns this array and appends to it."""
        return BlockTable(HashChain(tokens, self.block_size, extra_keys(salt=cache_salt)))

    def match(self, table: BlockTable) -> Match:
        """The longest cached prefix, in whole blocks, that leaves at least one token to compute. Holds nothing."""
        if not self.shares_prefixes:
            return NO_MATCH
        return self.prefix.match(table.chain, (table.num_tokens - 1) // self.block_size)

    def allocate(self, table: BlockTable, match: Match, headroom: int = 0) -> bool:
        """Fills an empty table: the matched blocks, then new ones for all its other tokens.

        False, and nothing changes, unless `headroom` blocks stay available for others. All blocks come at once, so
        that a prompt that has begun never stops half-way for want of them, and gets one run where there is one.
        """
        assert not table.blocks, "only an empty table is filled"
        num_new = table.num_missing - len(match.blocks)
        if num_new + headroom > self.pool.num_available - self.pool.num_idle_of(match.blocks):
            return False
        self.pool.share(match.blocks)
        table.extend(match.blocks)
        table.extend(self.pool.take(num_new))
        table.num_published = len(match.blocks)
        self.count(table, match)
        return True

    def count(self, table: BlockTable, match: Match) -> None:
        """A sequence queries once: that it finds its own blocks again after preemption is no hit of anybody's."""
        if table.num_cached is None:
            table.num_cached = match.tokens
            self.prefix_hits += match.tokens
            self.prefix_queries += 0 if match is NO_MATCH else table.num_tokens

    def extend(self, table: BlockTable) -> list[int] | None:
        """Blocks for the tokens that came since, already in the table. None: not enough now."""
        if table.num_missing > self.pool.num_available:
            return None
        blocks = self.pool.take(table.num_missing)
        table.extend(blocks)
        return blocks

    def publish(self, table: BlockTable, num_computed: int) -> None:
        """The first num_computed tokens stand in their blocks: full blocks among them may be shared from now on.

        Called only after the step that computed them. A block whose content another one holds stays private.
        """
        num_full = num_computed // self.block_size
        if num_full <= table.num_published or not self.shares_prefixes:
            return
        for position in range(table.num_published, num_full):
            cached = self.describe(table, position)
            if self.prefix.insert(cached):
                self.pool.keep(cached.block)
        table.num_published = num_full

    @staticmethod
    def describe(table: BlockTable, position: int) -> CachedBlock:
        chain = table.chain
        return CachedBlock(
            block=table.blocks[position],
            hash=chain.hash_of(position),
            parent=chain.parent_of(position),
            extra=chain.extra,
            tokens=chain.tokens_of(position),
        )

    def release(self, table: BlockTable) -> None:
        """Gives all blocks back; published ones stay findable until they are evicted."""
        self.pool.release(table.blocks)
        table.clear()

    def withdraw(self, table: BlockTable) -> None:
        """The table's content is not to be trusted: none of its blocks is found from now on, shared ones included.

        Whichever of them was bad, nobody meets it again: the next request with this beginning computes its own.
        """
        for block in table.blocks:
            if block in self.prefix:
                self.prefix.remove(block)
                self.pool.forget(block)

    def reset_prefix_cache(self) -> bool:
        """Forgets every cached block. False, and nothing changes, while a sequence holds blocks."""
        if self.pool.num_held:
            return False
        self.prefix.clear()
        self.pool.forget_all()
        return True

    def stats(self) -> CacheStats:
        return CacheStats(
            blocks_total=self.pool.num_blocks,
            blocks_used=self.pool.num_held,
            blocks_cached=len(self.prefix),
            prefix_queries=self.prefix_queries,
            prefix_hits=self.prefix_hits,
            hash_collisions=self.prefix.num_collisions,
        )
