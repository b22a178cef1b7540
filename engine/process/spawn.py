"""Starts our own processes: `spawn(core_main, payload, …)` runs core_main(payload) in a fresh interpreter.

fork + exec, so a child inherits no threads and no half-held locks; the payload is our msgpack, never pickle.
The target must be a module-level function that takes bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.base.environ import child_environment
from engine.process.titles import Role, name_of

CHILD = "import sys; sys.path.append(sys.argv[3]); from engine.process.spawn import child; child(sys.argv)"
HOME = str(Path(__file__).parents[2])
"""Where this engine lies. A child looks there last, and in the current folder (-P) never."""


class Child:
    """A process that we started. Reaped by poll or wait; end() never leaves it behind."""

    def __init__(self, process: subprocess.Popen[bytes], role: Role) -> None:
        self.process = process
        self.role = role
        self.name = name_of(role)
        self.pid = process.pid

    def exit_code(self) -> int | None:
        """None while it lives; negative: the signal that ended it."""
        return self.process.poll()

    def terminate(self) -> None:
        """Asks it to end."""
        if self.process.poll() is None:
            self.process.terminate()

    def kill(self) -> None:
        """Ends it now."""
        if self.process.poll() is None:
            self.process.kill()

    def end(self, timeout_s: float) -> int:
        """Waits that long for it to end by itself, then kills it. Returns its exit code."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(timeout_s + 5.0)


def spawn(
    target: Callable[[bytes], None], payload: bytes, role: Role, *, threads: int = 1, files: Sequence[int] = ()
) -> Child:
    """Starts target(payload) in a new process whose libraries use that many threads.

    files: open file descriptors that the child inherits under the same numbers.
    """
    place = f"{target.__module__}:{target.__qualname__}"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", CHILD, place, str(os.getpid()), HOME],
        stdin=subprocess.PIPE,
        env=child_environment(threads),
        pass_fds=tuple(files),
    )
    assert process.stdin is not None
    # A payload larger than the pipe must not wait for a child that is still importing.
    threading.Thread(target=hand_over, args=(process, payload), name="spawn-payload", daemon=True).start()
    return Child(process, role)


def hand_over(process: subprocess.Popen[bytes], payload: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(payload)
        process.stdin.close()
    except BrokenPipeError:
        pass  # The child ended first; whoever watches it will say so.


def child(argv: Sequence[str]) -> None:
    """The first lines of a spawned process: arm the orphan reaper, read the payload, call the target."""
    from importlib import import_module

    from engine.process.gc_policy import pause_collector
    from engine.process.orphans import die_with_parent

    place, parent = argv[1], int(argv[2])
    die_with_parent(parent)
    pause_collector()  # Until process.setup.end_of_startup.
    payload = sys.stdin.buffer.read()
    module, name = place.split(":")
    target: Callable[[bytes], None] = vars(import_module(module))[name]
    target(payload)
