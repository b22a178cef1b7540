from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.pool import BlockPool


def pool_of(num_blocks: int) -> tuple[BlockPool, list[int]]:
    evicted: list[int] = []
    return BlockPool(num_blocks, evicted.append), evicted


def keep(pool: BlockPool, blocks: list[int]) -> None:
    for block in blocks:
        pool.keep(block)


def test_blocks_are_handed_out_in_ascending_runs_from_the_lowest() -> None:
    pool, _ = pool_of(8)
    assert pool.take(3) == [0, 1, 2] and pool.take(2) == [3, 4]
    pool.release([0, 1, 2])
    assert pool.take(4) == [0, 1, 2, 5]


def test_a_block_that_was_never_cached_goes_before_any_eviction() -> None:
    pool, evicted = pool_of(4)
    blocks = pool.take(2)
    keep(pool, blocks)
    pool.release(blocks)
    assert pool.take(2) == [2, 3] and evicted == []
    assert pool.take(1) == [1] and evicted == [1]


def test_the_block_let_go_longest_ago_is_evicted_first_and_the_deepest_of_its_table() -> None:
    pool, evicted = pool_of(4)
    first, second = pool.take(2), pool.take(2)
    keep(pool, first + second)
    pool.release(second)
    pool.release(first)
    assert [pool.take(1) for _ in range(4)] == [[3], [2], [1], [0]]
    assert evicted == [3, 2, 1, 0]


def test_an_evicted_run_comes_back_in_ascending_order() -> None:
    pool, _ = pool_of(4)
    blocks = pool.take(4)
    keep(pool, blocks)
    pool.release(blocks)
    assert pool.take(4) == [0, 1, 2, 3]


def test_a_shared_idle_block_is_no_longer_evictable() -> None:
    pool, _ = pool_of(2)
    keep(pool, pool.take(1))
    pool.release([0])
    pool.share([0])
    assert pool.num_available == 1 and pool.take(1) == [1]


def test_sharing_again_makes_a_block_young() -> None:
    pool, evicted = pool_of(2)
    keep(pool, pool.take(2))
    pool.release([0])
    pool.release([1])
    pool.share([0])
    pool.release([0])
    pool.take(1)
    assert evicted == [1]


def test_release_returns_a_shared_block_only_once() -> None:
    pool, _ = pool_of(1)
    keep(pool, pool.take(1))
    pool.share([0])
    pool.release([0])
    assert pool.num_available == 0
    pool.release([0])
    assert pool.num_available == 1 and list(pool.free) == []


def test_a_forgotten_block_is_free_when_let_go() -> None:
    pool, evicted = pool_of(1)
    keep(pool, pool.take(1))
    pool.forget(0)
    pool.release([0])
    assert pool.take(1) == [0] and evicted == []


def test_an_evicted_block_is_not_worth_keeping_until_it_is_cached_again() -> None:
    pool, evicted = pool_of(1)
    keep(pool, pool.take(1))
    pool.release([0])
    pool.release(pool.take(1))
    pool.take(1)
    assert evicted == [0]


@pytest.mark.parametrize("wrong", ["release", "keep", "forget", "take"])
def test_wrong_moves_are_ours_and_stop_at_once(wrong: str) -> None:
    pool, _ = pool_of(2)
    moves = {
        "release": lambda: pool.release([1]),
        "keep": lambda: pool.keep(1),
        "forget": lambda: pool.forget(1),
        "take": lambda: pool.take(3),
    }
    with pytest.raises(AssertionError):
        moves[wrong]()


@given(st.lists(st.integers(0, 6), max_size=30))
def test_num_idle_of_is_what_sharing_takes_away(picks: list[int]) -> None:
    pool, _ = pool_of(7)
    keep(pool, pool.take(7))
    pool.release([1, 3, 5])
    blocks = array("i", sorted(set(picks)))
    before, idle = pool.num_available, pool.num_idle_of(blocks)
    pool.share(blocks)
    assert pool.num_available == before - idle
