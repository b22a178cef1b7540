"""Entry point of an EngineCore process. Light to import: the launcher imports it too, and loads no model."""

from __future__ import annotations

import signal
import sys

from msgspec import msgpack

from engine.base.clock import SystemClock
from engine.base.errors import ConfigError, ModelFileError
from engine.base.log import EventLog
from engine.launch.starts import START_FAILED, CoreStart
from engine.process.setup import end_of_startup, setup_process
from engine.process.titles import Role

log = EventLog(__name__)


def core_main(payload: bytes) -> None:
    """Loads the model and serves until SIGTERM. Exits with START_FAILED when it cannot load."""
    start = msgpack.decode(payload, type=CoreStart)
    setup_process(Role("core", dp=0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the launcher decides.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        serve(start)
    except (ConfigError, ModelFileError) as error:
        log.error(str(error))
        sys.exit(START_FAILED)


def serve(start: CoreStart) -> None:
    from engine.launch.build_core import build_core
    from engine.wire.sockets import SocketCoreEnd

    end = SocketCoreEnd(start.endpoints)
    try:
        core, ready = build_core(start.config, end, SystemClock(), num_api_servers=len(start.endpoints))
        end_of_startup()
        core.run(ready)
    finally:
        end.close()
