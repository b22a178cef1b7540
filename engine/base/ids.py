"""Names and numbers of requests. The engine's own id is a u64 that the client mints; the public one is text."""

from __future__ import annotations

from itertools import count

from engine.base.clock import entropy

API_BITS = 8
MAX_API_SERVERS = 1 << API_BITS


class RequestIds:
    """Mints u64 request ids that carry their API server: core.outbox routes by the high byte alone."""

    def __init__(self, api_index: int = 0) -> None:
        self.high = api_index << (64 - API_BITS)
        self.numbers = count(1)

    def mint(self) -> int:
        return self.high | next(self.numbers)


def api_index(request: int) -> int:
    """Which API server minted this id."""
    return request >> (64 - API_BITS)


def public_id(prefix: str) -> str:
    """A fresh public id such as `chatcmpl-3f…`: 128 random bits, so that ids of two servers never meet."""
    return f"{prefix}-{entropy(128):032x}"
