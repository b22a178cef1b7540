from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.base.config import MIB, CacheConfig
from engine.base.errors import ConfigError
from engine.worker.memory import free_host_memory, free_memory, plan_cache

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
GIB = 1024 * MIB


def blocks(asked: int | None, free: int, *, device: torch.device = CPU, context: int = 1024) -> int:
    """With blocks of 16 tokens and 1 MiB: a context of 1024 tokens takes 64 MiB."""
    return plan_cache(CacheConfig(kv_cache_memory_bytes=asked), MIB, context, free, device)


@pytest.mark.parametrize(
    ("free", "device", "expected"),
    [
        pytest.param(16 * GIB, CPU, 512, id="cpu-takes-512-MiB"),
        pytest.param(1 * GIB, CPU, 256, id="cpu-takes-a-quarter-of-little-memory"),
        pytest.param(100 * MIB, CPU, 64, id="never-less-than-one-context"),
        pytest.param(16 * GIB, CUDA, 4096, id="a-device-gives-a-quarter"),
    ],
)
def test_the_default_size(free, device, expected):
    assert blocks(None, free, device=device) == expected


def test_a_size_that_was_asked_for_is_kept():
    assert blocks(100 * MIB + 5, 16 * GIB) == 100


def test_less_than_one_context_is_refused_with_the_number_it_takes():
    with pytest.raises(ConfigError, match=str(64 * MIB)):
        blocks(64 * MIB - 1, 16 * GIB)


@pytest.mark.parametrize("asked", [None, 64 * MIB])
def test_more_than_there_is_is_refused(asked):
    with pytest.raises(ConfigError, match=str(64 * MIB - 1)):
        blocks(asked, 64 * MIB - 1)


@given(st.integers(1, 4096), st.integers(1, 300_000), st.integers(1, 10**12), st.integers(1, 128))
def test_a_planned_cache_holds_a_context_and_fits(block_bytes, max_model_len, free, block_size):
    config = CacheConfig(block_size=block_size)
    try:
        planned = plan_cache(config, block_bytes, max_model_len, free, CPU)
    except ConfigError:
        return
    assert planned * block_size >= max_model_len and planned * block_bytes <= free


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in ({"proc/meminfo": "MemTotal: 8000 kB\nMemAvailable:    4000 kB\n"} | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V2 = {
    "proc/self/cgroup": "0::/outer/inner\n",
    "sys/fs/cgroup/outer/inner/memory.max": "max\n",
    "sys/fs/cgroup/outer/memory.max": "3000000\n",
    "sys/fs/cgroup/outer/memory.current": "2500000\n",
    "sys/fs/cgroup/outer/memory.stat": "anon 1\ninactive_file 1000\n",
}
V1 = {
    "proc/self/cgroup": "4:cpu,memory:/docker/id\n0::/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "3000000\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "1000000\n",
    "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 24\n",
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, 4000 * 1024, id="no-cgroup"),
        pytest.param({"proc/self/cgroup": "0::/\n"}, 4000 * 1024, id="no-limit"),
        pytest.param(V2, 501000, id="limit-of-an-outer-group"),
        pytest.param(V2 | {"sys/fs/cgroup/outer/memory.current": "9000000"}, 0, id="limit-passed"),
        pytest.param(V1, 2000024, id="version-1-in-a-container"),
        pytest.param(
            V1 | {"sys/fs/cgroup/memory/memory.limit_in_bytes": str(2**63 - 4096)},
            4000 * 1024,
            id="version-1-unlimited",
        ),
        pytest.param(V1 | {"proc/meminfo": "MemAvailable: 5 kB\n"}, 5 * 1024, id="the-machine-is-the-narrower"),
    ],
)
def test_free_memory_is_what_machine_and_cgroups_allow(tmp_path, files, expected):
    assert free_host_memory(machine(tmp_path, files)) == expected


def test_this_machine_has_memory():
    assert 0 < free_memory(CPU) < 1 << 60
