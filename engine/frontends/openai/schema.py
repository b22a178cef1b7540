"""The part of /openapi.json that describes the bodies: made from the same structs that decode them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from msgspec import Struct
from msgspec.json import schema_components

from engine.frontends.openai.errors import ErrorBody
from engine.frontends.openai.protocol import ChatRequest, CompletionRequest, DetokenizeRequest, TokenizeRequest

Schema = dict[str, Any]  # Any: a JSON document, as FastAPI types it
BODIES = (ChatRequest, CompletionRequest, TokenizeRequest, DetokenizeRequest, ErrorBody)
REFERENCE = "#/components/schemas/{name}"


def describes(body: type[Struct]) -> Schema:
    """`openapi_extra` of a route that takes this body."""
    content = {"application/json": {"schema": {"$ref": REFERENCE.format(name=body.__name__)}}}
    refused = {"application/json": {"schema": {"$ref": REFERENCE.format(name=ErrorBody.__name__)}}}
    return {
        "requestBody": {"required": True, "content": content},
        "responses": {
            "4XX": {"description": "The request is wrong.", "content": refused},
            "5XX": {"description": "No capacity, or a fault of the server.", "content": refused},
        },
    }


class DescribedApi(FastAPI):
    """FastAPI that knows the schemas of our bodies; it never sees the bodies themselves."""

    def openapi(self) -> Schema:
        document = super().openapi()
        _, components = schema_components(BODIES, ref_template=REFERENCE)
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(components)
        return document
