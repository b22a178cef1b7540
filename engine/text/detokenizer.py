"""Tokens to text, as soon as the text is certain.

Works on bytes: a token's text never changes what was said before it. Knows no request and no stop string.
"""

from __future__ import annotations

from array import array
from codecs import utf_8_decode
from typing import Protocol

from engine.text.pieces import PieceTable, SpacePrefix

SURROGATE = b"\xed"  # the first byte of U+D000 to U+D7FF, and of what would be a surrogate


class HasPieces(Protocol):
    """What a detokenizer needs of a tokenizer."""

    def pieces(self, *, skip_special_tokens: bool) -> PieceTable:
        """The bytes of every token."""


class Detokenizer:
    """One stream's text: the pushes and the flush together are `Tokenizer.decode` of all its tokens.

    Bytes are UTF-8. Invalid ones become U+FFFD, one for each maximal part of a character (Unicode 15, section 3.9,
    what Python and Rust do), in a stream as in a batch; so a character cut off by the end is one U+FFFD.
    A push returns the longest text that no later token can change: at most three bytes wait.

    prompt_tail: the last tokens before the stream, where it continues a text; a few are enough. They decide whether
    a leading space is the tokenizer's own, and may hold the first bytes of a character; nothing else of them shows.
    spaces_between_special_tokens: taken for vLLM's sake. Neither byte-level nor SentencePiece decoding puts spaces
    there (nor does it in the `tokenizers` library), so both values read the same.
    """

    __slots__ = ("awaits_prefix", "pieces", "prefix", "specials", "tail", "texts")

    def __init__(
        self,
        tokenizer: HasPieces,
        *,
        skip_special_tokens: bool = True,
        spaces_between_special_tokens: bool = True,  # noqa: ARG002
        prompt_tail: array[int] | None = None,
    ) -> None:
        table = tokenizer.pieces(skip_special_tokens=skip_special_tokens)
        self.pieces, self.texts, self.specials, self.prefix = table
        self.tail = b""  # the first bytes of a character whose rest has not come
        self.awaits_prefix = self.prefix is not SpacePrefix.NEVER
        if prompt_tail:
            self.push(prompt_tail)

    def push(self, tokens: array[int]) -> str:
        """The text that these tokens make certain, often all of theirs; "" where that is none."""
        if self.tail or self.awaits_prefix:
            return self.push_bytes(tokens)
        texts = self.texts
        try:
            if len(tokens) == 1:  # a decode step: the common case, at half the cost
                text = texts[tokens[0]]
                return self.push_bytes(tokens) if text is None else text
            parts = [texts[token] for token in tokens]
        except IndexError:
            return self.push_bytes(tokens)
        return self.push_bytes(tokens) if None in parts else "".join(parts)  # type: ignore[arg-type]  # no None here

    def flush(self) -> str:
        """What is left at the end: one U+FFFD for a character that was cut off, else ""."""
        text, _ = utf_8_decode(self.tail, "replace", True)
        self.tail = b""
        return text

    def push_bytes(self, tokens: array[int]) -> str:
        pieces = self.pieces
        try:
            parts = [pieces[token] for token in tokens]
        except IndexError:
            # An id beyond the vocabulary (a padded embedding has some) stands for nothing.
            known = range(len(pieces))
            parts = [pieces[token] if token in known else b"" for token in tokens]
        if self.prefix is not SpacePrefix.NEVER:
            self.take_prefixes(tokens, parts)
        data = self.tail + b"".join(parts)
        text, used = utf_8_decode(data, "replace", False)
        self.tail = data[used:]
        if self.tail[:1] == SURROGATE and self.tail[1:] > b"\x9f":
            # CPython waits for the third byte of a surrogate, though none makes it a character.
            text += self.flush()
        return text

    def take_prefixes(self, tokens: array[int], parts: list[bytes]) -> None:
        """Take one space off each piece that begins a run of text."""
        specials, is_always = self.specials, self.prefix is SpacePrefix.ALWAYS
        for index, token in enumerate(tokens):
            if token in specials:
                self.awaits_prefix = is_always or (self.awaits_prefix and not parts[index])
            elif self.awaits_prefix and parts[index]:
                parts[index] = parts[index].removeprefix(b" ")
                self.awaits_prefix = False
