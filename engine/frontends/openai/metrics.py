"""GET and HEAD /metrics: the registries' text, rendered off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from engine.base.metrics import Registry

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def routes(registries: Sequence[Registry]) -> APIRouter:
    router = APIRouter()

    def render() -> str:
        return "".join([registry.render() for registry in registries])

    @router.head("/metrics", include_in_schema=False)
    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Prometheus' text format."""
        return Response(await asyncio.to_thread(render), media_type=MEDIA_TYPE)

    return router
