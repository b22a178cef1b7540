"""The cache against a model of lists and sets: tables open, grow, publish, close and are withdrawn in any order."""

from __future__ import annotations

from array import array
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from engine.base.config import CacheConfig
from engine.cache import NO_MATCH, BlockTable, KvCache

pytestmark = pytest.mark.timeout(400)
"""A failure is shrunk for up to five minutes before it is shown."""

BLOCK = 2
NUM_BLOCKS = 5

sequences = st.builds(
    lambda blocks, tail: [token for token in blocks for _ in range(BLOCK)] + tail,
    st.lists(st.integers(0, 1), max_size=NUM_BLOCKS + 1),
    st.lists(st.integers(0, 1), min_size=1, max_size=3),
)
"""Mostly repeated tokens: many sequences begin alike."""


class Sequence:
    """A table, its tokens, and what the machine knows of it."""

    def __init__(self, table: BlockTable, tokens: array[int], salt: str) -> None:
        self.table = table
        self.tokens = tokens
        self.salt = salt
        self.computed = 0


class CacheMachine(RuleBasedStateMachine):
    """`memory` is what a worker would have written: block -> (salt, all tokens up to its end)."""

    tables = Bundle("tables")

    def __init__(self) -> None:
        super().__init__()
        self.cache = KvCache(CacheConfig(block_size=BLOCK), NUM_BLOCKS)
        self.open: list[Sequence] = []
        self.memory: dict[int, tuple[str, tuple[int, ...]]] = {}

    @rule(
        target=tables,
        tokens=sequences,
        salt=st.sampled_from(["", "a", "b"]),
        reuse=st.booleans(),
    )
    def allocate(self, tokens: list[int], salt: str, reuse: bool) -> object:
        known = array("i", tokens)
        table = self.cache.table(known, salt)
        match = NO_MATCH
        if reuse:
            match = self.cache.match(table)
            self.check_match(match.blocks, known, salt)
        needed = -(-len(tokens) // BLOCK) - len(match.blocks)
        spare = self.cache.pool.num_available - sum(self.cache.pool.refs[block] == 0 for block in match.blocks)
        before = self.snapshot()
        filled = self.cache.allocate(table, match)
        assert filled == (needed <= spare), "a table is filled if and only if its new blocks are there"
        if not filled:
            assert self.snapshot() == before, "a refusal changes nothing"
            return multiple()
        sequence = Sequence(table, known, salt)
        sequence.computed = match.tokens
        self.open.append(sequence)
        return sequence

    def check_match(self, blocks: array[int], tokens: array[int], salt: str) -> None:
        assert len(blocks) * BLOCK < len(tokens), "one token at least is left to compute"
        for position, block in enumerate(blocks):
            assert self.memory[block] == (salt, tuple(tokens[: (position + 1) * BLOCK])), "a hit holds what it says"
        full = (len(blocks) + 1) * BLOCK
        if full < len(tokens):
            findable = [self.memory[block] for block in self.cache.prefix.by_block]
            assert (salt, tuple(tokens[:full])) not in findable, "the longest prefix is found"

    @rule(sequence=tables, share=st.sampled_from([0.5, 1]))
    def compute_and_publish(self, sequence: Sequence, share: float) -> None:
        if sequence not in self.open:
            return
        held = min(len(sequence.tokens), sequence.table.room)
        target = sequence.computed + round(share * (held - sequence.computed))
        for position in range(sequence.computed // BLOCK, target // BLOCK):
            self.memory[sequence.table.blocks[position]] = (
                sequence.salt,
                tuple(sequence.tokens[: (position + 1) * BLOCK]),
            )
        sequence.computed = target
        self.cache.publish(sequence.table, target)

    @rule(sequence=tables, tokens=st.lists(st.integers(0, 1), min_size=1, max_size=3))
    def extend(self, sequence: Sequence, tokens: list[int]) -> None:
        if sequence not in self.open or sequence.table.num_missing:
            return
        sequence.tokens.extend(tokens)
        needed, available = sequence.table.num_missing, self.cache.pool.num_available
        blocks = self.cache.extend(sequence.table)
        assert (blocks is not None) == (needed <= available)
        if blocks is None:
            del sequence.tokens[-len(tokens) :]
        else:
            assert blocks == sorted(blocks) and len(blocks) == needed

    @rule(sequence=consumes(tables))
    def release(self, sequence: Sequence) -> None:
        if sequence in self.open:
            self.open.remove(sequence)
            self.cache.release(sequence.table)

    @rule(sequence=consumes(tables))
    def withdraw(self, sequence: Sequence) -> None:
        if sequence not in self.open:
            return
        blocks = list(sequence.table.blocks)
        self.cache.withdraw(sequence.table)
        assert not any(block in self.cache.prefix for block in blocks), "nobody finds a withdrawn block"
        self.open.remove(sequence)
        self.cache.release(sequence.table)

    @rule()
    def reset(self) -> None:
        before = self.snapshot()
        done = self.cache.reset_prefix_cache()
        assert done == (not self.open)
        assert self.snapshot() == before if not done else len(self.cache.prefix) == 0

    def snapshot(self) -> object:
        pool = self.cache.pool
        return sorted(pool.free), list(pool.idle), list(pool.refs), dict(self.cache.prefix.by_block)

    @invariant()
    def every_block_is_in_one_state_and_counted_right(self) -> None:
        pool = self.cache.pool
        holders = Counter(block for sequence in self.open for block in sequence.table.blocks)
        assert list(pool.refs) == [holders[block] for block in range(NUM_BLOCKS)]
        assert sorted([*pool.free, *pool.idle, *holders]) == list(range(NUM_BLOCKS))
        stats = self.cache.stats()
        assert stats.blocks_used == len(holders)
        assert stats.hash_collisions == 0

    @invariant()
    def the_index_names_exactly_the_kept_blocks(self) -> None:
        prefix, pool = self.cache.prefix, self.cache.pool
        assert set(prefix.by_block) == {block for block in range(NUM_BLOCKS) if pool.kept[block]}
        assert set(pool.idle) <= set(prefix.by_block) and not set(pool.free) & set(prefix.by_block)
        assert len(prefix.by_hash) == len(prefix.by_block) == len(prefix)

    @invariant()
    def nobody_shares_a_block_that_is_still_written(self) -> None:
        partial = [sequence.table.blocks[sequence.computed // BLOCK :] for sequence in self.open]
        for sequence, writable in zip(self.open, partial, strict=True):
            for other in self.open:
                assert other is sequence or not set(writable) & set(other.table.blocks)


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(settings(), max_examples=60, stateful_step_count=30)
