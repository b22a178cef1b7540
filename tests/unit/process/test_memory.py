"""What start-up frees goes back to the system, and what steps free stays: seen in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from engine.process.memory import settle_memory
def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) / 1024
pieces = [bytes(100_000) for _ in range(2000)]  # Below the size that is mapped and given back on its own.
keep = pieces[-1]
del pieces
before = resident()
settle_memory()
after = resident()
large = bytearray(200_000_000)
large[::4096] = b"x" * len(large[::4096])
del large
print(before - after, resident() - after)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_start_ups_garbage_goes_back_and_a_steps_memory_is_kept() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    given_back, kept = map(float, result.stdout.split())
    assert given_back > 100
    assert kept > 150
