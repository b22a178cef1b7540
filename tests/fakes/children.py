"""What spawned processes do in tests: module-level functions, so that a fresh interpreter finds them."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from pathlib import Path

from engine.process.setup import end_of_startup, setup_process
from engine.process.spawn import spawn
from engine.process.titles import Role


def write_payload(payload: bytes) -> None:
    """`path\\0content`: writes the content, and what this process looks like."""
    path, content = payload.split(b"\0", 1)
    setup_process(Role("core", dp=0))
    end_of_startup()
    threads = os.environ["OMP_NUM_THREADS"]
    Path(path.decode()).write_bytes(content + b"\0" + threads.encode())


def report_collector(payload: bytes) -> None:
    """Writes whether the collector works, and on how many frozen objects: before and after the end of start-up."""
    before = [gc.isenabled(), gc.get_freeze_count()]
    end_of_startup()
    Path(payload.decode()).write_text(repr([before, [gc.isenabled(), gc.get_freeze_count() > 1000]]))


def exit_with(payload: bytes) -> None:
    sys.exit(int(payload))


def wait_for_ever(payload: bytes) -> None:
    """Ignores SIGTERM, says that it is there, and waits."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(payload.decode()).write_text(str(os.getpid()))
    threading.Event().wait()


def parent_of_one(payload: bytes) -> None:
    """Starts a grandchild that waits, and waits itself."""
    spawn(wait_for_ever, payload, Role("worker", dp=0, tp=0))
    threading.Event().wait()
