from __future__ import annotations

from array import array

import pytest

from engine.base.errors import EngineFault
from engine.cache.block import CachedBlock
from engine.cache.hashing import HashChain


def block_of(chain: HashChain, position: int) -> CachedBlock:
    return CachedBlock(
        block=0,
        hash=chain.hash_of(position),
        parent=chain.parent_of(position),
        extra=chain.extra,
        tokens=chain.tokens_of(position),
    )


@pytest.mark.parametrize(
    "tokens", [[1, 2], (1, 2), array("q", [1, 2]), b"\1\2"], ids=["list", "tuple", "int64", "bytes"]
)
def test_a_cached_block_refuses_anything_but_an_array_and_names_the_border(tokens: object) -> None:
    with pytest.raises(EngineFault, match="border of the prefix cache"):
        CachedBlock(block=0, hash=b"h", parent=b"p", extra=b"", tokens=tokens)  # type: ignore[arg-type]


def test_a_block_holds_its_own_content() -> None:
    chain = HashChain(array("i", [1, 2, 3, 4]), 2)
    assert block_of(chain, 1).holds(chain.parent_of(1), chain.extra, chain.tokens_of(1))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(HashChain(array("i", [1, 2, 3, 5]), 2), id="tokens"),
        pytest.param(HashChain(array("i", [1, 9, 3, 4]), 2), id="tokens-before-it"),
        pytest.param(HashChain(array("i", [1, 2, 3, 4]), 2, b"salt"), id="extra"),
    ],
)
def test_a_block_does_not_hold_what_differs_in(other: HashChain) -> None:
    own = block_of(HashChain(array("i", [1, 2, 3, 4]), 2), 1)
    assert not own.holds(other.parent_of(1), other.extra, other.tokens_of(1))
