"""What a process that computes asks of the C library's allocator once everything long-lived has been made.

glibc only (mallopt(3), malloc_trim(3)); elsewhere nothing is asked, and nothing is lost but speed.
"""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
NEVER = 2**31 - 1
LARGEST_IN_HEAP = 1 << 30


def settle_memory() -> None:
    """Gives back what start-up freed, and keeps from now on what steps free: the next step wants it again.

    Otherwise each large temporary of a step is fresh memory that the kernel must fault in, page by page.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    try:
        trim, option = libc.malloc_trim, libc.mallopt
    except AttributeError:
        return  # Another C library.
    trim(0)
    option(M_MMAP_THRESHOLD, LARGEST_IN_HEAP)
    option(M_TRIM_THRESHOLD, NEVER)
