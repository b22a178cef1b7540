"""Entry point of an API server process. Light to import: the launcher imports it too, and serves nothing."""

from __future__ import annotations

import signal
import sys

from msgspec import msgpack

from engine.base.errors import ConfigError, ModelFileError
from engine.base.log import EventLog
from engine.launch.starts import START_FAILED, ApiStart
from engine.process.setup import setup_process
from engine.process.titles import Role

log = EventLog(__name__)


def api_main(payload: bytes) -> None:
    """Serves until SIGTERM, then drains. Exits with START_FAILED when the model's text side cannot be read."""
    start = msgpack.decode(payload, type=ApiStart)
    setup_process(Role("api", api=start.index))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the launcher decides.
    from engine.launch.api_server import run

    try:
        run(start)
    except (ConfigError, ModelFileError) as error:
        log.error(str(error))
        sys.exit(START_FAILED)
