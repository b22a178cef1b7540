"""A block whose content may be shared: what it holds, and the proof.

Knows nothing of reference counts or eviction.
"""

from __future__ import annotations

from array import array

from msgspec import Struct

from engine.base.errors import EngineFault


class CachedBlock(Struct, frozen=True, gc=False):
    """A full KV block that sequences with the same beginning may share.

    Raises EngineFault unless tokens is an `array("i")`: an array never equals a list, so with a list here every
    hit would look like a hash collision, and the prefix cache would silently never hit.
    """

    block: int
    hash: bytes
    parent: bytes
    extra: bytes
    tokens: array[int]

    def __post_init__(self) -> None:
        if not (isinstance(self.tokens, array) and self.tokens.typecode == "i"):
            found = type(self.tokens).__name__
            raise EngineFault(f"border of the prefix cache: a cached block takes tokens as array('i'), not {found}")

    def holds(self, parent: bytes, extra: bytes, tokens: array[int]) -> bool:
        """Whether this is that block by content: what makes a hash hit a hit."""
        return self.tokens == tokens and self.parent == parent and self.extra == extra
