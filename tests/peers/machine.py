"""What this machine is and what else it is doing. Knows no server, only process ids."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import NamedTuple

import psutil

MAX_FOREIGN_CORES = 0.2
"""More than this used by other programs, and a measurement says nothing."""

HALF_UNITS = ("avx512_bf16", "amx_bf16")


class Cores(NamedTuple):
    """Processor time over an interval, in cores. foreign: other programs, and what the host took away (steal)."""

    foreign: float
    server: float
    client: float


NONE_USED = Cores(0.0, 0.0, 0.0)


class Reading(NamedTuple):
    """Seconds since some start: on the clock, and of processor time by all, by the server, by this process."""

    clock: float
    busy: float
    server: float
    client: float


class CpuMeter:
    """Splits the machine's processor time into the server's, ours and everyone else's."""

    def __init__(self) -> None:
        self.root: int | None = None

    def watch(self, pid: int) -> None:
        """From here on, this process and all below it are the server."""
        self.root = pid

    def read(self) -> Reading:
        times = psutil.cpu_times()
        busy = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
        server = 0.0 if self.root is None else sum(map(processor_time, tree(self.root)))
        return Reading(time.perf_counter(), busy, server, time.process_time())

    def since(self, start: Reading) -> Cores:
        now = self.read()
        elapsed = max(now.clock - start.clock, 1e-6)
        server, client = max(now.server - start.server, 0.0), now.client - start.client
        foreign = max(now.busy - start.busy - server - client, 0.0)
        return Cores(*(round(part / elapsed, 3) for part in (foreign, server, client)))


def tree(pid: int) -> list[psutil.Process]:
    """The process and everything below it; empty when it is gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def processor_time(process: psutil.Process) -> float:
    """Seconds, those of ended children too: what a child used does not become foreign when it ends."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def pss_bytes(pid: int) -> int:
    """Memory of the whole tree, shared pages divided among those that share them."""
    total = 0
    for process in tree(pid):
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


def peer_dtype(flags: frozenset[str]) -> str:
    """What peers are fastest in: bfloat16 without units for it takes them several times longer."""
    return "bfloat16" if flags.intersection(HALF_UNITS) else "float32"


def cpu_flags() -> frozenset[str]:
    return frozenset(cpu_field("flags").split())


def cpu_field(name: str) -> str:
    """The first value of a field of /proc/cpuinfo; empty where there is none."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def cores_here() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def description() -> dict[str, object]:
    return {
        "processor": cpu_field("model name") or platform.processor(),
        "cores": len(cores_here()),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "half_units": sorted(cpu_flags().intersection(HALF_UNITS)),
        "python": platform.python_version(),
    }
