"""Entry point of an EngineCore process."""

from __future__ import annotations

import signal
import sys

from msgspec import Struct, msgpack

from engine.base.clock import SystemClock
from engine.base.config import EngineConfig
from engine.base.errors import ConfigError, ModelFileError
from engine.base.log import EventLog
from engine.process.setup import end_of_startup, setup_process
from engine.process.titles import Role
from engine.wire.sockets import SocketCoreEnd

log = EventLog(__name__)

START_FAILED = 3
"""Exit code of a process that said why it could not start."""


class CoreStart(Struct, frozen=True):
    """launcher -> core, on its standard input. endpoints: one per API server."""

    config: EngineConfig
    endpoints: tuple[str, ...]


def core_main(payload: bytes) -> None:
    """Loads the model and serves until SIGTERM. Exits with START_FAILED when it cannot load."""
    start = msgpack.decode(payload, type=CoreStart)
    setup_process(Role("core", dp=0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the launcher decides.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    end = SocketCoreEnd(start.endpoints)
    try:
        serve(start, end)
    except (ConfigError, ModelFileError) as error:
        log.error(str(error))
        sys.exit(START_FAILED)
    finally:
        end.close()


def serve(start: CoreStart, end: SocketCoreEnd) -> None:
    from engine.launch.build_core import build_core

    core, ready = build_core(start.config, end, SystemClock(), num_api_servers=len(start.endpoints))
    end_of_startup()
    core.run(ready)
