"""The paged KV cache, seen from the deciding half: which block holds which tokens, and who shares it."""

from engine.cache.kv_cache import CacheStats, KvCache
from engine.cache.prefix import NO_MATCH, Match
from engine.cache.table import BlockTable

__all__ = ["NO_MATCH", "BlockTable", "CacheStats", "KvCache", "Match"]
