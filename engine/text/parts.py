"""What a tokenizer is made of, whichever file it came from: the library's encoder, and what tokens stand for."""

from __future__ import annotations

from typing import NamedTuple

import tokenizers

from engine.text.pieces import SpacePrefix


class Special(NamedTuple):
    """A token that is never meant as text. strips_left/right: it swallows the white space beside it."""

    text: str
    strips_left: bool = False
    strips_right: bool = False


class Parts(NamedTuple):
    """pieces: bytes per id, b"" for special tokens and holes. before/after: ids put around a text.

    encoder: matches no special token in text (`encode_special_tokens`). roles: "bos", "eos", "unk", "pad" and "eot"
    to ids, where the file names them.
    """

    encoder: tokenizers.Tokenizer
    pieces: list[bytes]
    specials: dict[int, Special]
    prefix: SpacePrefix
    before: tuple[int, ...]
    after: tuple[int, ...]
    roles: dict[str, int]
