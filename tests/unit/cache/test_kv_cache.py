from __future__ import annotations

from array import array
from collections.abc import Iterable

import pytest

from engine.base.config import CacheConfig
from engine.cache import NO_MATCH, BlockTable, KvCache

BLOCK = 4


def cache_of(num_blocks: int, *, caching: bool = True) -> KvCache:
    return KvCache(CacheConfig(block_size=BLOCK, enable_prefix_caching=caching), num_blocks)


def opened(cache: KvCache, tokens: Iterable[int], salt: str = "") -> BlockTable:
    """A table with blocks for all of its tokens, computed and published."""
    table = cache.table(array("i", tokens), salt)
    assert cache.allocate(table, cache.match(table))
    cache.publish(table, table.num_tokens)
    return table


def hit(cache: KvCache, tokens: Iterable[int], salt: str = "") -> int:
    return cache.match(cache.table(array("i", tokens), salt)).tokens


@pytest.mark.parametrize(("length", "cached"), [(1, 0), (4, 0), (5, 4), (8, 4), (9, 8), (12, 8)])
def test_the_longest_hit_leaves_one_token_to_compute(length: int, cached: int) -> None:
    cache = cache_of(8)
    opened(cache, range(16))
    assert hit(cache, range(length)) == cached


def test_only_full_computed_blocks_are_published() -> None:
    cache = cache_of(8)
    table = cache.table(array("i", range(12)))
    cache.allocate(table, NO_MATCH)
    for computed, cached in [(3, 0), (4, 4), (7, 4), (11, 8)]:
        cache.publish(table, computed)
        assert hit(cache, range(16)) == cached


def test_a_sequence_shares_the_blocks_that_it_matches() -> None:
    cache = cache_of(8)
    first, second = opened(cache, range(10)), opened(cache, range(9))
    assert list(second.blocks[:2]) == list(first.blocks[:2]) and second.blocks[2] != first.blocks[2]
    assert cache.stats().blocks_used == 4


def test_matched_blocks_are_not_published_again() -> None:
    cache = cache_of(8)
    opened(cache, range(9))
    table = cache.table(array("i", range(9)))
    cache.allocate(table, cache.match(table))
    assert table.num_published == 2


def test_released_blocks_are_found_until_they_are_evicted() -> None:
    cache = cache_of(3)
    cache.release(opened(cache, range(9)))
    assert hit(cache, range(9)) == 8 and cache.stats().blocks_used == 0
    cache.release(opened(cache, range(50, 58)))
    assert hit(cache, range(9)) == 4, "the deeper block went first"


def test_matched_blocks_are_not_counted_twice_as_available() -> None:
    cache = cache_of(3)
    cache.release(opened(cache, range(8)))
    table = cache.table(array("i", range(16)))
    assert cache.match(table).tokens == 8
    assert not cache.allocate(table, cache.match(table)), "two hits and one free block are not four blocks"
    assert cache.stats().blocks_used == 0 and not table.blocks


def test_PFX_08_admission_takes_hits_into_account() -> None:
    cache = cache_of(4)
    opened(cache, range(12))
    opened(cache, range(13))
    assert cache.stats().blocks_used == 4


def test_PFX_06_equal_prompts_computed_at_once_keep_their_own_blocks() -> None:
    cache = cache_of(8)
    first, second = cache.table(array("i", range(8))), cache.table(array("i", range(8)))
    cache.allocate(first, cache.match(first))
    cache.allocate(second, cache.match(second))
    cache.publish(first, 8)
    cache.publish(second, 8)
    own = list(second.blocks)
    cache.release(first)
    assert list(second.blocks) == own and all(cache.pool.refs[block] == 1 for block in own)
    cache.release(second)
    assert cache.stats().blocks_cached == 2 and cache.pool.num_available == 8


def test_salts_never_share() -> None:
    cache = cache_of(8)
    opened(cache, range(9), "a")
    assert [hit(cache, range(9), salt) for salt in ("a", "b", "")] == [8, 0, 0]


def test_queries_and_hits_are_counted_in_tokens_once_a_sequence() -> None:
    cache = cache_of(8)
    table = opened(cache, range(9))
    again = opened(cache, range(9))
    cache.release(table)
    cache.allocate(table, cache.match(table))
    assert again.num_cached == 8 and table.num_cached == 0
    assert (cache.stats().prefix_queries, cache.stats().prefix_hits) == (18, 8)


def test_a_sequence_that_may_not_reuse_is_no_query() -> None:
    cache = cache_of(8)
    cache.allocate(cache.table(array("i", range(9))), NO_MATCH)
    assert cache.stats().prefix_queries == 0


def test_extend_gives_what_the_new_tokens_need_or_nothing() -> None:
    cache = cache_of(3)
    tokens = array("i", range(4))
    table = cache.table(tokens)
    cache.allocate(table, NO_MATCH)
    assert cache.extend(table) == []
    tokens.extend(range(5))
    assert cache.extend(table) == [1, 2] and table.room == 12
    tokens.extend(range(9))
    assert cache.extend(table) is None and list(table.blocks) == [0, 1, 2]


def test_SMP_13_withdrawn_blocks_are_found_by_nobody_whoever_holds_them() -> None:
    cache = cache_of(8)
    first, second = opened(cache, range(9)), opened(cache, range(13))
    cache.withdraw(second)
    assert hit(cache, range(13)) == 0
    cache.release(second)
    cache.release(first)
    assert cache.stats().blocks_cached == 0 and len(cache.pool.free) == 8


def test_a_withdrawn_prefix_is_cached_again_when_it_is_computed_again() -> None:
    cache = cache_of(8)
    table = opened(cache, range(9))
    cache.withdraw(table)
    cache.release(table)
    opened(cache, range(9))
    assert hit(cache, range(9)) == 8


def test_a_reset_forgets_everything_and_waits_until_nobody_holds_a_block() -> None:
    cache = cache_of(8)
    table = opened(cache, range(9))
    assert not cache.reset_prefix_cache() and hit(cache, range(9)) == 8
    cache.release(table)
    assert cache.reset_prefix_cache() and hit(cache, range(9)) == 0
    assert cache.pool.take(8) == list(range(8))


def test_without_prefix_caching_nothing_is_found_kept_or_counted() -> None:
    cache = cache_of(4, caching=False)
    cache.release(opened(cache, range(9)))
    assert hit(cache, range(9)) == 0
    assert cache.stats() == (4, 0, 0, 0, 0, 0) and len(cache.pool.free) == 4


def test_PFX_09_a_block_that_changes_hands_is_not_found_under_its_old_name() -> None:
    cache = cache_of(3)
    for start in (0, 100) * 20:
        table = cache.table(array("i", range(start, start + 9)))
        assert cache.match(table).tokens == 0
        cache.allocate(table, cache.match(table))
        cache.publish(table, 9)
        cache.release(table)
