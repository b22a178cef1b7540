"""The name of a KV block: a hash of its tokens, chained over all tokens before it.

Owns the digest and its input, byte for byte. Knows nothing of blocks that exist.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import sha256
from struct import pack

ROOT = bytes(32)
"""Parent of a sequence's first block."""


def compute_hash(parent: bytes, tokens: Sequence[int], extra: bytes = b"") -> bytes:
    """32 bytes of sha256 over (parent, extra, tokens as little-endian int64 whatever container they came in).

    A parent of fixed length and a length before `extra` keep the three apart. sha256, because tenants share the
    cache: whoever can make two prompts collide reads another's answers.
    """
    packed = pack(f"<{len(tokens)}q", *tokens)
    return sha256(parent + len(extra).to_bytes(8, "little") + extra + packed).digest()


def extra_keys(**parts: str) -> bytes:
    """What beside the tokens tells two blocks apart (`salt=…`), as bytes; b"" when every part is empty.

    Each part is tagged with its name and both carry their lengths, so a salt "X" is never an adapter "X".
    """
    fields = (text for name in sorted(parts) if parts[name] for text in (name, parts[name]))
    encoded = (field.encode("utf-8", "surrogatepass") for field in fields)
    return b"".join(len(field).to_bytes(8, "little") + field for field in encoded)


class HashChain:
    """The hashes of one sequence's full blocks; each is computed when it is first asked for, and once.

    Holds the sequence's own token array, which only grows at its end: a full block never changes.
    """

    __slots__ = ("block_size", "extra", "hashes", "tokens")

    def __init__(self, tokens: array[int], block_size: int, extra: bytes = b"") -> None:
        self.tokens = tokens
        self.block_size = block_size
        self.extra = extra
        self.hashes: list[bytes] = []

    def hash_of(self, position: int) -> bytes:
        """Hash of the full block at `position` (0 is the first)."""
        while len(self.hashes) <= position:
            parent = self.hashes[-1] if self.hashes else ROOT
            self.hashes.append(compute_hash(parent, self.tokens_of(len(self.hashes)), self.extra))
        return self.hashes[position]

    def parent_of(self, position: int) -> bytes:
        return self.hash_of(position - 1) if position else ROOT

    def tokens_of(self, position: int) -> array[int]:
        start = position * self.block_size
        tokens = self.tokens[start : start + self.block_size]
        assert len(tokens) == self.block_size, "only full blocks have a name"
        return tokens
