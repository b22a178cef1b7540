"""Block hashes, and blocks taken, shared and given back."""

from __future__ import annotations

from array import array

from engine.base.config import CacheConfig
from engine.cache import KvCache
from engine.cache.hashing import compute_hash

NUM_BLOCKS = 4096
PROMPT = array("i", range(2048))


class BlockHash:
    """Hashing one block of 16 tokens."""

    version = "1"

    def setup(self) -> None:
        self.parent = compute_hash(b"", PROMPT[:16])
        self.block = PROMPT[16:32]

    def time_hash_of_one_block(self) -> None:
        compute_hash(self.parent, self.block)


class PrefixHit:
    """A prompt of 2,048 tokens that is cached whole: matched, shared, released."""

    version = "1"

    def setup(self) -> None:
        self.cache = KvCache(CacheConfig(), NUM_BLOCKS)
        table = self.cache.table(array("i", PROMPT))
        assert self.cache.allocate(table, self.cache.match(table))
        self.cache.publish(table, len(PROMPT))
        self.cache.release(table)

    def time_match_share_release(self) -> None:
        table = self.cache.table(array("i", PROMPT))
        match = self.cache.match(table)
        assert match.tokens > len(PROMPT) // 2
        assert self.cache.allocate(table, match)
        self.cache.release(table)
