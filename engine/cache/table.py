"""A sequence's block table: which KV blocks hold its tokens, in order.

Knows nothing of other sequences.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from engine.cache.hashing import HashChain


class BlockTable:
    """Block i holds the keys and values of tokens i*B .. i*B + B.

    room: tokens that its blocks can hold. num_published: leading blocks that the prefix cache has seen.
    num_cached: tokens that the prefix cache gave when the sequence first got blocks; None before that.
    """

    __slots__ = ("blocks", "chain", "num_cached", "num_published", "room")

    def __init__(self, chain: HashChain) -> None:
        self.chain = chain
        self.blocks = array("i")
        self.room = 0
        self.num_published = 0
        self.num_cached: int | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens that the sequence has, whether they stand in a block yet or not."""
        return len(self.chain.tokens)

    @property
    def num_missing(self) -> int:
        """Blocks still needed for all tokens that the sequence has."""
        return -(-self.num_tokens // self.chain.block_size) - len(self.blocks)

    def extend(self, blocks: Iterable[int]) -> None:
        self.blocks.extend(blocks)
        self.room = len(self.blocks) * self.chain.block_size

    def clear(self) -> None:
        """Holds nothing; the sequence keeps its tokens and their hashes."""
        self.blocks = array("i")
        self.room = 0
        self.num_published = 0
