"""The bytes that each token stands for, and where a space in front of text is the tokenizer's own.

Knows the two ways tokens spell bytes: GPT-2's byte alphabet, and SentencePiece's ▁ and <0xHH>.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import accumulate, pairwise
from typing import NamedTuple

BYTE_TOKENS = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}
SPACE_MARK = "▁"


class SpacePrefix(Enum):
    """Where encoding puts a space in front of text, so that decoding takes one off again."""

    NEVER = "never"
    FIRST = "first"
    """Of a whole text only."""
    ALWAYS = "always"
    """Of each run of text: at the start, and after every special token."""


class PieceTable(NamedTuple):
    """One entry per token id, for one choice of showing or hiding special tokens.

    texts: the token's text where its bytes alone are whole characters and its place does not matter, else None.
    """

    pieces: list[bytes]
    texts: list[str | None]
    specials: frozenset[int]
    prefix: SpacePrefix


def byte_level_pieces(tokens: Sequence[str]) -> list[bytes]:
    """Tokens spelt in GPT-2's alphabet of 256 printable characters, one per byte.

    A token with a character outside the alphabet (an added one) stands for its UTF-8 as it is, as the `tokenizers`
    library has it. All are translated in one go: one call a token costs ten times as much.
    """
    outside = {index: text for index, text in enumerate(tokens) if not ALPHABET.issuperset(text)}
    spelt = [text if index not in outside else "" for index, text in enumerate(tokens)] if outside else tokens
    data = "".join(spelt).translate(BYTE_OF).encode("latin-1")
    pieces = [data[start:end] for start, end in pairwise(accumulate(map(len, spelt), initial=0))]
    for index, text in outside.items():
        pieces[index] = text.encode()
    return pieces


def sentencepiece_pieces(tokens: Iterable[str]) -> list[bytes]:
    """Tokens spelt as they read, with ▁ for a space; <0xHH> is a byte."""
    return [BYTE_TOKENS.get(text) or text.replace(SPACE_MARK, " ").encode() for text in tokens]


def piece_table(
    pieces: list[bytes], specials: Mapping[int, str], prefix: SpacePrefix, *, skip_special_tokens: bool
) -> PieceTable:
    """specials: id -> text of the tokens that are hidden or shown as they read, whatever their entry in `pieces`."""
    shown = pieces.copy()
    for token, text in specials.items():
        shown[token] = b"" if skip_special_tokens else text.encode()
    texts = [whole_text(piece) for piece in shown]
    if prefix is not SpacePrefix.NEVER:
        for token in specials:
            texts[token] = None
    return PieceTable(shown, texts, frozenset(specials), prefix)


def whole_text(piece: bytes) -> str | None:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None


def gpt2_alphabet() -> dict[int, int]:
    """Code point -> byte. Printable Latin-1 characters stand for themselves, the other bytes follow from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {byte: byte for byte in printable} | {0x100 + index: byte for index, byte in enumerate(others)}


BYTE_OF = gpt2_alphabet()
ALPHABET = frozenset(map(chr, BYTE_OF))
