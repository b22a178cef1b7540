"""What every endpoint is given, and what all of them do first: check the model, name the answer."""

from __future__ import annotations

import re

from msgspec import Struct
from starlette.requests import Request

from engine.base.clock import Clock
from engine.base.config import FrontendConfig
from engine.base.errors import ClientError
from engine.client.async_engine import AsyncEngine
from engine.frontends.openai.middleware import request_id
from engine.frontends.openai.token_texts import TokenTexts

ID = re.compile(r"[\x21-\x7e]{1,128}")


class Service(Struct, frozen=True):
    """One per server. policy: how waiting requests are ordered."""

    engine: AsyncEngine
    config: FrontendConfig
    clock: Clock
    texts: TokenTexts
    policy: str = "fcfs"


class Head(Struct, frozen=True):
    """What all chunks and the body of one answer begin with."""

    id: str
    created: int
    model: str


def priority(service: Service, given: int | None) -> int:
    """Raises ClientError for a priority that this server would not act on."""
    if given and service.policy != "priority":
        raise ClientError("This server runs without `--scheduling-policy priority`.", param="priority")
    return given or 0


def cache_salt(given: str | None) -> str:
    """The engine's "" is no salt at all; a client that sends "" meant one. Raises ClientError."""
    if given == "":
        raise ClientError("`cache_salt` is empty.", param="cache_salt")
    return given or ""


def head(service: Service, prefix: str, own_id: str | None, request: Request) -> Head:
    """The answer is called `<prefix>-<id>`: the body's request_id, or else the request's X-Request-Id."""
    if own_id is not None and not ID.fullmatch(own_id):
        raise ClientError("`request_id` is 1 to 128 printable ASCII characters.", param="request_id")
    name = f"{prefix}-{own_id or request_id(request.scope)}"
    return Head(name, int(service.clock.wall()), service.engine.limits.model_name)
