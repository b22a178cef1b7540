from __future__ import annotations

import psutil
import pytest
import torch

from engine.kernels.cpu.cache import PagedCache
from tests.unit.kernels.backends import CPU, SHAPE

MIB = 1 << 20


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_allocating_takes_no_memory_until_blocks_are_written(dtype):
    before = psutil.Process().memory_info().rss
    cache = PagedCache(SHAPE, 4, 16, dtype, CPU)
    cache.allocate(256 * MIB // cache.block_bytes)
    assert psutil.Process().memory_info().rss - before < 8 * MIB
    assert all(layer.dtype == dtype and not layer[:, :2].any() for layer in cache.paged)


def test_the_scratch_of_reads_grows_and_is_then_reused():
    cache = PagedCache(SHAPE, 1, 4, torch.float16, CPU)
    cache.allocate(64)
    small, _ = cache.read(0, torch.arange(3), 1)
    large, _ = cache.read(0, torch.arange(40), 2)
    again, _ = cache.read(0, torch.arange(3), 1)
    assert large.shape == (2, SHAPE.num_kv_heads, 80, SHAPE.head_dim)
    assert again.data_ptr() == large.data_ptr() != small.data_ptr()
