"""What the operating system says of another process: its state, the processor time it has used, its memory.

Linux: /proc/PID/stat, see proc(5). Elsewhere nothing is known, and None says so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

STATE_FIELD = 0
USER_TICKS_FIELD = 11
SYSTEM_TICKS_FIELD = 12


class ProcessState(NamedTuple):
    """`state` is ps's letter: R running, S asleep, D in I/O, T stopped, Z ended but not reaped."""

    state: str
    cpu_seconds: float

    @property
    def is_able_to_run(self) -> bool:
        return self.state not in ("T", "t", "Z", "X")


def process_state(pid: int) -> ProcessState | None:
    """None when there is no such process (or no /proc)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name stands in parentheses and may itself hold spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    ticks = int(fields[USER_TICKS_FIELD]) + int(fields[SYSTEM_TICKS_FIELD])
    return ProcessState(fields[STATE_FIELD], ticks / os.sysconf("SC_CLK_TCK"))


def usable_cores() -> int:
    """Processors that this process may run on."""
    if "sched_getaffinity" in vars(os):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
