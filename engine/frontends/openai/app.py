"""The OpenAI-compatible application: its routes, and the layers around them. The order of the layers is the point.

Edge (id, count) > CORS > key check > faults become answers > router. So a refusal of any layer carries the id and the
CORS headers, and a preflight needs no key. /docs is left out: its page loads scripts from a CDN.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from engine.base.clock import Clock, SystemClock
from engine.base.config import FrontendConfig
from engine.base.errors import EnginewrightError
from engine.base.metrics import Registry
from engine.base.version import VERSION
from engine.client.async_engine import AsyncEngine
from engine.frontends.openai import chat, completions, health, metrics, models, tokenize
from engine.frontends.openai.auth import KeyCheck
from engine.frontends.openai.errors import answer
from engine.frontends.openai.http_metrics import HttpMetrics
from engine.frontends.openai.middleware import Edge, Faults
from engine.frontends.openai.schema import DescribedApi
from engine.frontends.openai.service import Service
from engine.frontends.openai.token_texts import TokenTexts


def create_app(
    engine: AsyncEngine,
    config: FrontendConfig,
    *,
    api_keys: Sequence[str] = (),
    policy: str = "fcfs",
    clock: Clock | None = None,
) -> FastAPI:
    """An ASGI application over a running engine.

    api_keys: in place of config.api_key where the environment may add one. policy: SchedulerConfig's; requests may
    bring a priority under "priority" only.
    """
    clock = clock or SystemClock()
    service = Service(engine, config, clock, TokenTexts(engine), policy)
    own = Registry()
    app = DescribedApi(
        title="Enginewright",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for routes in (chat, completions, models, tokenize, health):
        app.include_router(routes.routes(service))
    app.include_router(metrics.routes([engine.metrics.registry, own]))
    add_layers(app, config, HttpMetrics(own, paths(app)), clock, api_keys or config.api_key)
    return app


def add_layers(app: FastAPI, config: FrontendConfig, counts: HttpMetrics, clock: Clock, keys: Sequence[str]) -> None:
    """Innermost first."""
    for kind in (EnginewrightError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer)
    app.add_middleware(Faults)
    if keys:
        app.add_middleware(KeyCheck, keys=keys)
    if config.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.allowed_origins,
            allow_methods=["GET", "HEAD", "POST", "OPTIONS"],
            allow_headers=["*"],
            expose_headers=["x-request-id"],
        )
    app.add_middleware(Edge, metrics=counts, clock=clock, logs=config.access_log)


def paths(app: FastAPI) -> frozenset[str]:
    """The closed set of paths that metrics name."""
    return frozenset(app.openapi()["paths"])
