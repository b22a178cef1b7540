"""GET /health, /ping and /version: what probes ask. Health is the core's, not this process's."""

from __future__ import annotations

from fastapi import APIRouter
from msgspec.json import encode
from starlette.responses import Response

from engine.base.version import VERSION
from engine.frontends.openai.errors import problem
from engine.frontends.openai.schema import fails
from engine.frontends.openai.service import Service


def routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.head("/health", include_in_schema=False)
    @router.post("/ping", operation_id="ping_post", openapi_extra=fails())
    @router.get("/ping", operation_id="ping", openapi_extra=fails())
    @router.get("/health", operation_id="health", openapi_extra=fails())
    async def health() -> Response:
        """200 while the core lives and moves; otherwise 503, and why."""
        found = service.engine.health()
        if found.is_healthy:
            return Response(encode({"status": "ok"}), media_type="application/json")
        reason = f"The engine is {found.state}: {found.reason}" if found.reason else f"The engine is {found.state}."
        return problem(503, reason, headers={"retry-after": "1"}).response()

    @router.get("/version")
    async def version() -> Response:
        """The version of this server."""
        return Response(encode({"version": VERSION}), media_type="application/json")

    return router
