"""One line an event, with fields: `log.info("preempted", request=7, blocks=3)`.

Owns the format. Formatting happens only for lines that are printed; a step logs nothing at info.
"""

from __future__ import annotations

import logging
import sys

from engine.base.environ import log_level

FORMAT = "%(asctime)s %(levelname)-7s %(process_title)s: %(message)s"


class EventLog:
    """A named logger that takes an event and its fields."""

    def __init__(self, name: str) -> None:
        self.logger = logging.getLogger(name)

    def debug(self, event: str, **fields: object) -> None:
        self.write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        self.write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self.write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self.write(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """An error with the traceback of the exception being handled."""
        self.logger.error("%s", Line(event, fields), exc_info=True, stacklevel=2)

    def write(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self.logger.isEnabledFor(level):
            self.logger.log(level, "%s", Line(event, fields), stacklevel=3)


class Line:
    """Renders `event key=value …` only when a handler asks for the text."""

    def __init__(self, event: str, fields: dict[str, object]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        return " ".join([self.event, *(f"{key}={value}" for key, value in self.fields.items())])


def start_logging(process_title: str, level: str | None = None) -> None:
    """Sends this process's log to stderr under its title; called once, by process.setup_process.

    Raises ConfigError when ENGINE_LOG_LEVEL is misspelt.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT, "%H:%M:%S", defaults={"process_title": process_title}))
    root = logging.getLogger("engine")
    root.handlers = [handler]
    root.setLevel((level or log_level()).upper())
    root.propagate = False
