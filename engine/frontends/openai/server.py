"""The HTTP server process's socket side: uvicorn on uvloop and httptools, and the order of a shutdown.

Knows the application as an ASGI callable only.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from math import ceil

import uvicorn
from starlette.types import ASGIApp

from engine.base.config import FrontendConfig
from engine.base.log import EventLog
from engine.client.async_engine import AsyncEngine
from engine.frontends.openai.connection import Connection

log = EventLog(__name__)

BACKLOG = 2048
# After the drain, streams have this long to send their error event and close.
LAST_WORDS_S = 2.0


async def serve_app(app: ASGIApp, sock: socket.socket, config: FrontendConfig, engine: AsyncEngine) -> None:
    """Serves on the bound socket until SIGTERM; then stops accepting, and drains.

    Requests still running after `shutdown_timeout_s` are aborted, and their clients told so; the last connections
    are cut LAST_WORDS_S later. Owns the socket. Call it in the main thread of a process, on a uvloop loop.
    """
    server = Server(uvicorn_config(app, config))
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        asked = asyncio.create_task(stopping.wait())
        await asyncio.wait((serving, asked), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        await drain(server, serving, config, engine)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        serving.cancel()


async def drain(server: Server, serving: asyncio.Task[None], config: FrontendConfig, engine: AsyncEngine) -> None:
    """Raises what ended the server, where it was not asked to stop."""
    server.should_exit = True
    log.info("draining", connections=len(server.server_state.connections), seconds=config.shutdown_timeout_s)
    done, _ = await asyncio.wait((serving,), timeout=config.shutdown_timeout_s)
    if not done:
        await engine.close()
    await serving


def uvicorn_config(app: ASGIApp, config: FrontendConfig) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=Connection,
        ws="none",
        lifespan="off",
        # Ours are in the application's outermost layer, which knows the request id.
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=config.timeout_keep_alive_s,
        ssl_certfile=config.ssl_certfile,
        ssl_keyfile=config.ssl_keyfile,
        root_path=config.root_path,
        # The last resort: it cancels what neither finished in the drain nor heard that the engine closed.
        timeout_graceful_shutdown=ceil(config.shutdown_timeout_s + LAST_WORDS_S),
    )


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: who may stop this process, and how, is decided above."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
