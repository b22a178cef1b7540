"""Entry point of an EngineCore process. Light to import: the launcher imports it too, and loads no model."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from msgspec import msgpack

from engine.base.clock import SystemClock
from engine.base.errors import ConfigError, ModelFileError
from engine.base.log import EventLog
from engine.launch.starts import START_FAILED, CoreStart
from engine.process.setup import end_of_startup, setup_process
from engine.process.titles import Role

if TYPE_CHECKING:
    from engine.core.loop import EngineCore
    from engine.wire.channel import CoreEnd
    from engine.wire.output import Ready

log = EventLog(__name__)


def core_main(payload: bytes) -> None:
    """Loads the model and serves until SIGTERM. Exits with START_FAILED when it cannot load."""
    start = msgpack.decode(payload, type=CoreStart)
    setup_process(Role("core", dp=0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the launcher decides.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    from engine.wire.sockets import SocketCoreEnd

    end = SocketCoreEnd(start.endpoints)
    try:
        core, ready = build(start, end)
        end_of_startup()
        core.run(ready)
    finally:
        end.close()


def build(start: CoreStart, end: CoreEnd) -> tuple[EngineCore, Ready]:
    """A core that cannot be built says why, in one line where it knows, and is not waited for."""
    try:
        from engine.launch.build_core import build_core

        return build_core(start.config, end, SystemClock(), num_api_servers=len(start.endpoints))
    except (ConfigError, ModelFileError) as error:
        log.error(str(error))
    except Exception:  # The edge of the process: a fault of ours, told whole.
        log.exception("the engine core could not start")
    sys.exit(START_FAILED)
