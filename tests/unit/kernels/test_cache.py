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


def test_windows_share_memory_that_grows_with_the_largest():
    cache = PagedCache(SHAPE, 1, 4, torch.float16, CPU)
    small, large, again = cache.window(3, 1), cache.window(40, 2), cache.window(3, 1)
    assert large.keys.shape == large.values.shape == (2, SHAPE.num_kv_heads, 80, SHAPE.head_dim)
    assert again.widened.data_ptr() == large.widened.data_ptr() != small.widened.data_ptr()
