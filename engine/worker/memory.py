"""How many KV blocks fit, and how much memory there is to ask for.

Owns the default size of the cache and the reading of /proc and cgroups. Allocates nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from engine.base.config import KIB, MIB, CacheConfig
from engine.base.errors import ConfigError

CPU_DEFAULT_BYTES = 512 * MIB
DEFAULT_SHARE = 4
"""The cache takes one part in this many of the free memory, unless told otherwise."""
NO_LIMIT = 1 << 60
"""cgroup v1 says "unlimited" with a number near 2**63."""


def plan_cache(
    config: CacheConfig, block_bytes: int, max_model_len: int, free_memory_bytes: int, device: torch.device
) -> int:
    """Number of KV blocks: at least one full context (max_model_len tokens), whatever the default size says.

    Raises ConfigError when not even that fits, with the number of bytes it takes.
    """
    context_bytes = -(-max_model_len // config.block_size) * block_bytes
    wanted = config.kv_cache_memory_bytes
    if wanted is None:
        share = free_memory_bytes // DEFAULT_SHARE
        wanted = max(context_bytes, min(share, CPU_DEFAULT_BYTES) if device.type == "cpu" else share)
    if wanted < context_bytes:
        raise ConfigError(
            f"kv_cache_memory_bytes is {wanted}, and one context of {max_model_len} tokens takes {context_bytes}: "
            "give at least that, or a smaller max_model_len"
        )
    if wanted > free_memory_bytes:
        raise ConfigError(
            f"the KV cache would take {wanted} bytes, and {free_memory_bytes} are free on {device}: "
            f"set kv_cache_memory_bytes or a smaller max_model_len (one context of {max_model_len} tokens takes "
            f"{context_bytes})"
        )
    return wanted // block_bytes


def free_memory(device: torch.device) -> int:
    """Bytes that this process may still take on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_host_memory()


def free_host_memory(root: Path = Path("/")) -> int:
    """What the machine has available and the cgroups of this process still allow, whichever is less."""
    return min(available(root), *cgroup_rooms(root), NO_LIMIT)


def available(root: Path) -> int:
    """MemAvailable of /proc/meminfo; where there is none (not Linux), all the memory that there is."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fields = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return int(fields["MemAvailable"].split()[0]) * KIB


def cgroup_rooms(root: Path) -> Iterator[int]:
    """Bytes left under the memory limit of each cgroup that this process is in, inner ones first.

    Version 1 and 2 (kernel documentation: admin-guide/cgroup-v1/memory.rst, admin-guide/cgroup-v2.rst). Inside a
    container the listed path need not exist; the mount's root is then the container's own group.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mount, limit, usage, cache = root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            mount, limit, usage, cache = (
                root / "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )
        else:
            continue
        inner = mount / path.strip("/")
        for group in [inner, *inner.parents][: len(Path(path).parts)]:
            if (room := room_left(group, limit, usage, cache)) is not None:
                yield room


def room_left(group: Path, limit: str, usage: str, cache: str) -> int | None:
    """None where the group sets no limit, or is not there. File pages that can be dropped count as free."""
    try:
        allowed = (group / limit).read_text().strip()
        if allowed == "max" or int(allowed) >= NO_LIMIT:
            return None
        used = int((group / usage).read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except OSError:
        return None
    return max(0, int(allowed) - used + int(stat.get(cache, 0)))
