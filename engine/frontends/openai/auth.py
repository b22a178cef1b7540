"""The key check. Closed by default: every path asks for a key but the few that probes and scrapers need.

Pure ASGI, outside the router, so that no route can be added without it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from engine.frontends.openai.errors import problem

OPEN_PATHS = frozenset({"/health", "/ping", "/metrics", "/version", "/openapi.json"})
CHALLENGE = {"www-authenticate": "Bearer"}


class KeyCheck:
    """Lets a request pass that carries one of the keys as `Authorization: Bearer KEY`."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self.app = app
        self.digests = [digest(key.encode()) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self.is_open(scope) or self.has_key(scope):
            await self.app(scope, receive, send)
            return
        message = "Send a key of this server as `Authorization: Bearer KEY`."
        refusal = problem(401, message, code="invalid_api_key", headers=CHALLENGE)
        await refusal.response()(scope, receive, send)

    def is_open(self, scope: Scope) -> bool:
        """A browser's preflight (OPTIONS) never carries a key."""
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        return scope["method"] == "OPTIONS" or path in OPEN_PATHS

    def has_key(self, scope: Scope) -> bool:
        """Compares with every key in constant time: neither which key nor how much of it is right can be timed."""
        given = digest(bearer(scope))
        matches = [hmac.compare_digest(given, known) for known in self.digests]
        return any(matches)


def bearer(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            return key.strip() if scheme.lower() == b"bearer" else b""
    return b""


def digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
