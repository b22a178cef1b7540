from __future__ import annotations

from array import array

import pytest

from engine.cache import hashing
from engine.cache.block import CachedBlock
from engine.cache.hashing import HashChain
from engine.cache.prefix import PrefixIndex


def chain_of(*tokens: int, extra: bytes = b"") -> HashChain:
    return HashChain(array("i", tokens), 2, extra)


def insert(index: PrefixIndex, chain: HashChain, position: int, block: int) -> bool:
    return index.insert(
        CachedBlock(
            block=block,
            hash=chain.hash_of(position),
            parent=chain.parent_of(position),
            extra=chain.extra,
            tokens=chain.tokens_of(position),
        )
    )


@pytest.fixture
def index() -> PrefixIndex:
    """Blocks 7 and 3 hold the tokens 1 2 | 3 4."""
    index = PrefixIndex()
    insert(index, chain_of(1, 2, 3, 4), 0, 7)
    insert(index, chain_of(1, 2, 3, 4), 1, 3)
    return index


def test_the_longest_prefix_is_found_in_whole_blocks(index: PrefixIndex) -> None:
    match = index.match(chain_of(1, 2, 3, 4, 5), 2)
    assert list(match.blocks) == [7, 3] and match.tokens == 4


def test_a_match_ends_at_the_first_block_that_differs(index: PrefixIndex) -> None:
    assert list(index.match(chain_of(1, 2, 9, 4, 5), 2).blocks) == [7]
    assert list(index.match(chain_of(9, 2, 3, 4, 5), 2).blocks) == []


def test_a_match_is_no_longer_than_asked(index: PrefixIndex) -> None:
    assert list(index.match(chain_of(1, 2, 3, 4), 1).blocks) == [7]


def test_a_block_after_a_gap_is_not_found(index: PrefixIndex) -> None:
    index.remove(7)
    assert index.match(chain_of(1, 2, 3, 4, 5), 2).tokens == 0
    assert 3 in index and 7 not in index


def test_another_salt_finds_nothing(index: PrefixIndex) -> None:
    assert index.match(chain_of(1, 2, 3, 4, 5, extra=b"salt"), 2).tokens == 0


def test_content_is_cached_once(index: PrefixIndex) -> None:
    assert not insert(index, chain_of(1, 2), 0, 5)
    assert list(index.match(chain_of(1, 2, 3), 1).blocks) == [7]
    assert 5 not in index and len(index) == 2


@pytest.mark.parametrize("extra", [b"", b"salt"])
def test_a_hash_hit_with_other_content_is_a_miss_and_counted(monkeypatch: pytest.MonkeyPatch, extra: bytes) -> None:
    monkeypatch.setattr(hashing, "compute_hash", lambda *_: bytes(32))
    index = PrefixIndex()
    insert(index, chain_of(1, 2), 0, 0)
    assert index.match(chain_of(1, 2, 3), 1).tokens == 2
    assert index.match(chain_of(1, 3 if not extra else 2, 3, extra=extra), 1).tokens == 0
    assert index.num_collisions == 1


def test_a_cleared_index_finds_nothing(index: PrefixIndex) -> None:
    index.clear()
    assert len(index) == 0 and index.match(chain_of(1, 2, 3), 1).tokens == 0
