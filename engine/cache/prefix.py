"""Longest cached prefix of a sequence, in whole blocks.

Owns the hash index, and with it the only two places where a block becomes cached or stops being so.
Knows nothing of requests, reference counts or devices.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from engine.cache.block import CachedBlock
from engine.cache.hashing import ROOT, HashChain


class Match(NamedTuple):
    """The cached beginning of a sequence: its blocks in order, and how many tokens they hold."""

    blocks: array[int]
    tokens: int


NO_MATCH = Match(array("i"), 0)


class PrefixIndex:
    """Cached blocks by hash and by number. A hash hit counts only when the tokens are the same ones."""

    def __init__(self) -> None:
        self.by_hash: dict[bytes, CachedBlock] = {}
        self.by_block: dict[int, CachedBlock] = {}
        self.num_collisions = 0

    def match(self, chain: HashChain, max_blocks: int) -> Match:
        """The longest run of cached blocks from the start of the chain, at most max_blocks long."""
        blocks, parent = array("i"), ROOT
        for position in range(max_blocks):
            name = chain.hash_of(position)
            cached = self.by_hash.get(name)
            if cached is None:
                break
            if not cached.holds(parent, chain.extra, chain.tokens_of(position)):
                self.num_collisions += 1
                break
            blocks.append(cached.block)
            parent = name
        return Match(blocks, len(blocks) * chain.block_size)

    def insert(self, cached: CachedBlock) -> bool:
        """Makes a block findable. False when its content is cached in another block already: that one stays."""
        if cached.hash in self.by_hash:
            return False
        assert cached.block not in self.by_block, "a block is cached under one name at a time"
        self.by_hash[cached.hash] = cached
        self.by_block[cached.block] = cached
        return True

    def remove(self, block: int) -> None:
        """The block's content goes away, or is no longer to be shared."""
        cached = self.by_block.pop(block)
        del self.by_hash[cached.hash]

    def clear(self) -> None:
        self.by_hash.clear()
        self.by_block.clear()

    def __len__(self) -> int:
        return len(self.by_block)

    def __contains__(self, block: int) -> bool:
        return block in self.by_block
