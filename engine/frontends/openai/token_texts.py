"""What single tokens are called in logprobs: text, bytes, and whether the answer's text shows them.

Owns the cache of it, bounded by the vocabulary. Knows no endpoint.
"""

from __future__ import annotations

from msgspec import Struct

from engine.client.async_engine import AsyncEngine


class TokenText(Struct, frozen=True, gc=False):
    """name: the `token` string. raw: its bytes, None without a tokenizer. is_hidden: a special token, which text
    leaves out when special tokens are skipped."""

    name: str
    raw: bytes | None
    is_hidden: bool = False


class TokenTexts:
    """One per server."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self.known: dict[int, TokenText] = {}

    def of(self, token_id: int, *, as_id: bool = False) -> TokenText:
        """as_id: the name is `token_id:<id>`, which tells apart tokens that look alike."""
        known = self.known.get(token_id) or self.learn(token_id)
        return TokenText(numbered(token_id), known.raw, known.is_hidden) if as_id else known

    def learn(self, token_id: int) -> TokenText:
        made = self.known[token_id] = self.look_up(token_id)
        return made

    def look_up(self, token_id: int) -> TokenText:
        if not self.engine.limits.has_tokenizer:
            return TokenText(numbered(token_id), None)
        raw = self.engine.token_bytes(token_id)
        if not raw:  # A row of the model's vocabulary that the tokenizer does not use.
            return TokenText(numbered(token_id), raw)
        shown = self.engine.decode([token_id], skip_special_tokens=True)
        is_hidden = not shown and bool(self.engine.decode([token_id], skip_special_tokens=False))
        return TokenText(name(raw), raw, is_hidden)


def numbered(token_id: int) -> str:
    return f"token_id:{token_id}"


def name(raw: bytes) -> str:
    r"""The text, or for a piece of a character its bytes as OpenAI writes them: `bytes:\xe2\x80`."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
