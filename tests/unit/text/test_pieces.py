"""What single tokens stand for, against the alphabet written down character by character."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from engine.text.pieces import ALPHABET, BYTE_OF, byte_level_pieces, sentencepiece_pieces


def test_the_alphabet_is_the_librarys() -> None:
    assert frozenset(pre_tokenizers.ByteLevel.alphabet()) == ALPHABET
    assert sorted(BYTE_OF.values()) == list(range(256))


@given(st.lists(st.one_of(st.text(sorted(ALPHABET), max_size=6), st.text(max_size=6)), max_size=20))
def test_byte_level_tokens_are_their_bytes_or_as_they_read(tokens: list[str]) -> None:
    expected = [
        bytes(BYTE_OF[ord(character)] for character in text) if ALPHABET.issuperset(text) else text.encode()
        for text in tokens
    ]
    assert byte_level_pieces(tokens) == expected


def test_sentencepiece_tokens_read_as_they_are_spelt() -> None:
    assert sentencepiece_pieces(["▁a▁", "<0x00>", "<0xFF>", "<0xG0>", "é"]) == [
        b" a ",
        b"\x00",
        b"\xff",
        b"<0xG0>",
        "é".encode(),
    ]
