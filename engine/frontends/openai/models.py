"""GET /v1/models and /v1/models/{id}: the names that requests may give."""

from __future__ import annotations

from fastapi import APIRouter
from msgspec import Struct
from msgspec.json import encode
from starlette.responses import Response

from engine.frontends.openai.schema import fails
from engine.frontends.openai.service import Service
from engine.frontends.openai.translate import check_model

OWNER = "enginewright"


class ModelCard(Struct):
    """One name. root: the name that answers carry."""

    id: str
    created: int
    root: str
    max_model_len: int
    object: str = "model"
    owned_by: str = OWNER
    parent: None = None


class ModelList(Struct):
    """GET /v1/models."""

    data: list[ModelCard]
    object: str = "list"


def routes(service: Service) -> APIRouter:
    router = APIRouter()
    limits = service.engine.limits
    started = int(service.clock.wall())
    cards = {name: ModelCard(name, started, limits.model_name, limits.max_model_len) for name in limits.model_names}

    @router.get("/v1/models", openapi_extra=fails())
    async def list_models() -> Response:
        """The served model under each of its names."""
        return Response(encode(ModelList(list(cards.values()))), media_type="application/json")

    @router.get("/v1/models/{model:path}", openapi_extra=fails())
    async def retrieve_model(model: str) -> Response:
        """One name, or 404."""
        check_model(model, limits)
        return Response(encode(cards[model or limits.model_name]), media_type="application/json")

    return router
