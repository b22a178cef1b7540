from __future__ import annotations

from array import array
from hashlib import sha256
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.hashing import ROOT, HashChain, compute_hash, extra_keys

int32s = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(int32s, max_size=40), st.binary(max_size=8))
def test_list_and_array_and_tuple_agree(tokens: list[int], extra: bytes) -> None:
    expected = compute_hash(ROOT, tokens, extra)
    assert compute_hash(ROOT, array("i", tokens), extra) == expected
    assert compute_hash(ROOT, array("q", tokens), extra) == expected
    assert compute_hash(ROOT, tuple(tokens), extra) == expected


def test_the_input_of_the_digest_is_pinned_byte_for_byte() -> None:
    extra = b"xy"
    data = ROOT + bytes([2, 0, 0, 0, 0, 0, 0, 0]) + extra + bytes([5] + [0] * 7) + bytes([1, 1] + [0] * 6)
    assert compute_hash(ROOT, array("i", [5, 257]), extra) == sha256(data).digest()


@given(st.lists(int32s, max_size=8), st.lists(int32s, max_size=8), st.binary(max_size=16), st.binary(max_size=16))
def test_tokens_never_pass_for_extra(a: list[int], b: list[int], x: bytes, y: bytes) -> None:
    assert (compute_hash(ROOT, a, x) == compute_hash(ROOT, b, y)) == ((a, x) == (b, y))


def test_the_hash_of_a_block_names_all_tokens_before_it() -> None:
    first, second = compute_hash(ROOT, [1, 2]), compute_hash(ROOT, [9, 2])
    assert compute_hash(first, [3, 4]) != compute_hash(second, [3, 4])


def test_PFX_01_salt_adapter_and_medium_of_the_same_text_are_different_blocks() -> None:
    extras = [
        b"",
        extra_keys(salt="X"),
        extra_keys(adapter="X"),
        extra_keys(medium="X"),
        extra_keys(adapter="X", salt="X"),
        extra_keys(adapter="salt", salt="X"),
        extra_keys(adapter="Xsalt"),
    ]
    hashes = [compute_hash(ROOT, [1, 2, 3], extra) for extra in extras]
    assert all(a != b for a, b in combinations(hashes, 2))


def test_an_empty_part_is_no_part() -> None:
    assert extra_keys(salt="") == b""
    assert extra_keys(salt="", adapter="a") == extra_keys(adapter="a")


@pytest.mark.parametrize("salt", ["é", "\ud800", "a\0b", "🙂" * 100])
def test_any_text_can_be_a_salt(salt: str) -> None:
    assert extra_keys(salt=salt) != extra_keys(salt=salt + "x")


@given(st.lists(int32s, min_size=4, max_size=30))
def test_a_chain_gives_the_same_hashes_in_whatever_order_they_are_asked(tokens: list[int]) -> None:
    forward, backward = HashChain(array("i", tokens), 4, b"e"), HashChain(array("i", tokens), 4, b"e")
    last = len(tokens) // 4 - 1
    assert backward.hash_of(last) == [forward.hash_of(position) for position in range(last + 1)][-1]
    assert backward.parent_of(0) == ROOT


def test_a_chain_goes_on_when_its_tokens_grow() -> None:
    tokens = array("i", [1, 2])
    chain = HashChain(tokens, 2)
    first = chain.hash_of(0)
    tokens.extend([3, 4])
    assert chain.hash_of(1) == compute_hash(first, [3, 4])


def test_a_partial_block_has_no_name() -> None:
    with pytest.raises(AssertionError, match="full blocks"):
        HashChain(array("i", [1, 2, 3]), 2).hash_of(1)
