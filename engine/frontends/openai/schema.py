"""The part of /openapi.json that describes the bodies: made from the same structs that decode them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from msgspec import Struct
from msgspec.json import schema_components

from engine.frontends.openai.errors import ErrorBody
from engine.frontends.openai.protocol import ChatRequest, CompletionRequest, DetokenizeRequest, TokenizeRequest
from engine.frontends.openai.translate import REFUSED

Schema = dict[str, Any]  # Any: a JSON document, as FastAPI types it
BODIES = (ChatRequest, CompletionRequest, TokenizeRequest, DetokenizeRequest, ErrorBody)
REFERENCE = "#/components/schemas/{name}"


def describes(body: type[Struct]) -> Schema:
    """`openapi_extra` of a route that takes this body."""
    content = {"application/json": {"schema": {"$ref": REFERENCE.format(name=body.__name__)}}}
    return {"requestBody": {"required": True, "content": content}, **fails()}


def fails() -> Schema:
    """`openapi_extra` of every other route."""
    content = {"application/json": {"schema": {"$ref": REFERENCE.format(name=ErrorBody.__name__)}}}
    return {
        "responses": {
            "4XX": {"description": "The request is wrong.", "content": content},
            "5XX": {"description": "No capacity, or a fault of the server.", "content": content},
        }
    }


class DescribedApi(FastAPI):
    """FastAPI that knows the schemas of our bodies; it never sees the bodies themselves."""

    def openapi(self) -> Schema:
        """The document, once made. Fields that are refused are left out: there is no value to give them."""
        if self.openapi_schema is None:
            document = super().openapi()
            _, components = schema_components(BODIES, ref_template=REFERENCE)
            for component in components.values():
                properties = component.get("properties", {})
                for name in REFUSED.keys() & properties.keys():
                    del properties[name]
            document.setdefault("components", {}).setdefault("schemas", {}).update(components)
        assert self.openapi_schema is not None
        return self.openapi_schema
