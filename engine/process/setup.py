"""The one way a process of the engine starts up: title, death with its parent, log; and the one place start-up ends."""

from __future__ import annotations

import faulthandler

import setproctitle

from engine.base.log import EventLog, start_logging
from engine.process.gc_policy import freeze_heap
from engine.process.memory import settle_memory
from engine.process.orphans import die_with_parent
from engine.process.titles import Role, name_of, title_of

log = EventLog(__name__)


def setup_process(role: Role, *, parent: int | None = None, log_level: str | None = None) -> None:
    """Called first in every process that we start, before it takes a device or memory.

    parent: the pid with which this process must die. Raises ConfigError when a variable is misspelt.
    """
    if parent is not None:
        die_with_parent(parent)
    setproctitle.setproctitle(title_of(role))
    start_logging(name_of(role), log_level)
    faulthandler.enable()


def end_of_startup() -> None:
    """Called once, when everything that lives as long as the process has been made."""
    log.debug("heap frozen", objects=freeze_heap())
    settle_memory()
