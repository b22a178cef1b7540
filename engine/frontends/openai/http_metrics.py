"""Counts of HTTP answers by path, method and status, and how long they took.

Labels come from a closed set: a client cannot make series by asking for paths and methods that do not exist.
"""

from __future__ import annotations

from starlette.types import Scope

from engine.base.metrics import Registry

METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS"})
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600)
GONE = "499"


class HttpMetrics:
    """prometheus-fastapi-instrumentator's names."""

    def __init__(self, registry: Registry, paths: frozenset[str]) -> None:
        self.paths = paths
        self.requests = registry.counter("http_requests", "HTTP answers.", ("handler", "method", "status"))
        self.seconds = registry.histogram(
            "http_request_duration_seconds", "Seconds from a request's headers to the end of its answer.", BUCKETS
        )

    def observe(self, scope: Scope, status: int | None, seconds: float) -> None:
        """status None: the client left before there was one."""
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        method = scope["method"]
        self.requests.add(
            1,
            path if path in self.paths else "none",
            method if method in METHODS else "other",
            str(status) if status else GONE,
        )
        self.seconds.observe(seconds)
