"""The two ends of the hallway between clients and cores, whatever carries it (sockets, or one process)."""

from __future__ import annotations

from typing import Protocol

from engine.wire.output import FromCore
from engine.wire.request import ToCore


class ClientEnd(Protocol):
    """What a client holds. Never blocks."""

    def send(self, message: ToCore) -> None:
        """Hands a message over; the order of one client's messages is kept."""

    def receive(self) -> list[FromCore]:
        """All messages that have come, oldest first; empty when there are none."""

    def close(self) -> None:
        """Says good-bye; safe to call twice."""


class CoreEnd(Protocol):
    """What a core holds: one way to each API server, numbered from 0."""

    def receive(self, timeout_s: float) -> list[tuple[int, ToCore]]:
        """(API server, message) pairs that have come. Waits up to timeout_s when there are none; 0 never waits."""

    def send(self, api_server: int, message: FromCore) -> None:
        """Hands a message over without waiting for the other side."""

    def close(self) -> None:
        """Flushes what was sent, then lets go; safe to call twice."""
