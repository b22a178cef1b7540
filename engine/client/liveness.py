"""Is the core alive and moving? Decided from its heartbeats and from what the operating system says of it.

Knows no HTTP status and kills nobody.
"""

from __future__ import annotations

from msgspec import Struct


class Health(Struct, frozen=True):
    """state: "starting", "healthy", "stalled" or "dead"; only "healthy" is ready for work (200, otherwise 503)."""

    state: str
    reason: str = ""

    @property
    def is_healthy(self) -> bool:
        return self.state == "healthy"
