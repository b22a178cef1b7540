"""An API server at work: a frontend and the client half on one event loop. Never imports torch."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

import uvloop

from engine.base.clock import SystemClock
from engine.base.environ import api_key
from engine.base.errors import EngineDead
from engine.base.log import EventLog
from engine.client.async_engine import AsyncEngine
from engine.client.liveness import Liveness
from engine.client.metrics import ClientMetrics
from engine.frontends.openai import create_app, serve_app
from engine.launch.banner import show_banner
from engine.launch.build_client import ClientParts, build_client
from engine.launch.starts import ApiStart
from engine.process.inspect import process_state
from engine.process.setup import end_of_startup
from engine.wire.sockets import SocketClientEnd

log = EventLog(__name__)


def run(start: ApiStart) -> None:
    """Until SIGTERM. Raises ConfigError or ModelFileError when the model's text side cannot be read."""
    end = SocketClientEnd(start.endpoint)  # First: the core connects while this process still reads.
    uvloop.run(serve(start, end, build_client(start.config)))


async def serve(start: ApiStart, end: SocketClientEnd, parts: ClientParts) -> None:
    metrics = ClientMetrics(parts.limits.model_name)
    engine = AsyncEngine(end, parts.admission, parts.chat, SystemClock(), metrics, api_index=start.index)
    loop = asyncio.get_running_loop()
    descriptor = end.fileno()
    loop.add_reader(descriptor, engine.pump)
    watch_core(start.core, engine)
    starting = loop.create_task(announce(start, engine))
    config = start.config.frontend
    keys = config.api_key or ((key,) if (key := api_key()) else ())
    app = create_app(engine, config, api_keys=keys, policy=start.config.scheduler.scheduling_policy)
    try:
        await serve_app(app, socket.socket(fileno=start.listener), config, engine)
    finally:
        starting.cancel()
        loop.remove_reader(descriptor)  # By number: a drain that ran out of time has closed the end already.
        await engine.close()
        end.close()


async def announce(start: ApiStart, engine: AsyncEngine) -> None:
    """When the core is ready: from then on its death is noticed at once, and the operator is told what runs."""
    try:
        ready = await engine.wait_ready()
    except EngineDead as error:
        log.error(str(error))
        os.kill(os.getpid(), signal.SIGTERM)  # Nothing was ever served, so nothing is left to do.
        return
    engine.watch(Liveness(SystemClock(), start.config.frontend.stall_timeout_s, lambda: process_state(ready.pid)))
    end_of_startup()
    show_banner(start.config, ready, engine.limits, socket_name(start.listener))


def watch_core(core: int, engine: AsyncEngine) -> None:
    """The kernel tells us of the core's end through a pidfd (Linux 5.3); elsewhere its silence does, later."""
    if "pidfd_open" not in vars(os):
        return
    try:
        descriptor = os.pidfd_open(core)
    except ProcessLookupError:
        engine.core_died("the engine core has ended")
        return

    def ended() -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        engine.pump()  # What it still said comes first: it may say why it ended.
        engine.core_died("the engine core has ended unexpectedly")

    asyncio.get_running_loop().add_reader(descriptor, ended)


def socket_name(descriptor: int) -> tuple[str, int]:
    listener = socket.socket(fileno=os.dup(descriptor))
    with listener:
        host, port = listener.getsockname()[:2]
    return host, port
