"""A process dies with its parent: an orphan would hold the model's memory for ever.

The kernel does it where there is prctl(PR_SET_PDEATHSIG) (Linux, prctl(2)); a watching thread does it elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1
WATCH_INTERVAL_S = 0.5


def die_with_parent(parent: int) -> None:
    """Arms this process; `parent` is the pid that must stay alive. Ends at once when it is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=watch, args=(parent,), name="parent-watch", daemon=True).start()
    # The parent may have died before the kernel was told whom to watch.
    if os.getppid() != parent:
        os._exit(1)


def watch(parent: int) -> None:
    """Polls until the parent changes; only where the kernel cannot tell us."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(WATCH_INTERVAL_S)
    os._exit(1)
