from __future__ import annotations

from array import array

import pytest

from engine.cache.hashing import HashChain
from engine.cache.table import BlockTable


@pytest.mark.parametrize(("num_tokens", "num_blocks"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2)])
def test_a_table_misses_a_block_for_every_begun_one(num_tokens: int, num_blocks: int) -> None:
    assert BlockTable(HashChain(array("i", range(num_tokens)), 4)).num_missing == num_blocks


def test_a_table_sees_its_sequence_grow() -> None:
    tokens = array("i", range(4))
    table = BlockTable(HashChain(tokens, 4))
    table.extend([9])
    assert table.room == 4 and table.num_missing == 0
    tokens.append(4)
    assert table.num_missing == 1


def test_a_cleared_table_keeps_what_the_cache_gave_first() -> None:
    table = BlockTable(HashChain(array("i", range(4)), 4))
    table.extend([9])
    table.num_cached, table.num_published = 0, 1
    table.clear()
    assert (table.room, table.num_published, table.num_cached, list(table.blocks)) == (0, 0, 0, [])


def test_block_numbers_are_int32() -> None:
    table = BlockTable(HashChain(array("i", [1]), 4))
    table.extend([1, 2])
    assert table.blocks.typecode == "i"
