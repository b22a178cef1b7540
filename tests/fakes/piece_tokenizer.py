"""A tokenizer whose token t is the t-th piece given: what an assembler or a detokenizer needs of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.text.pieces import PieceTable, SpacePrefix, piece_table


class PieceTokenizer:
    """pieces: text or bytes of each token. specials: id -> text."""

    def __init__(self, pieces: Sequence[str | bytes], specials: Mapping[int, str] | None = None) -> None:
        self.raw = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
        self.specials = dict(specials or {})

    def pieces(self, *, skip_special_tokens: bool) -> PieceTable:
        return piece_table(self.raw, self.specials, SpacePrefix.NEVER, skip_special_tokens=skip_special_tokens)

    def decode(self, tokens: Sequence[int]) -> str:
        """Special tokens hidden."""
        return b"".join(b"" if token in self.specials else self.raw[token] for token in tokens).decode(errors="replace")
