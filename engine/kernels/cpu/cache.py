"""The paged KV cache of the torch back end.

Owns the layout: per layer one tensor [blocks, 2 * kv_heads, block_size, head_dim], the key heads before the value
heads, so that a block is one piece of memory and one gather brings both. Knows no sequence.
"""

from __future__ import annotations

import mmap
from math import prod
from typing import NamedTuple

import numpy as np
import torch

from engine.kernels.batch import Int64
from engine.kernels.port import AttentionShape

LARGEST = 65504.0
"""Of a number that is kept, in any format float16's largest: far beyond sane keys and values, and products of such
numbers do not overflow."""


class Window(NamedTuple):
    """Blocks read from the cache: as stored, and as float32 by head. `keys` and `values` are parts of `widened`."""

    gathered: torch.Tensor
    """[blocks, 2 * kv_heads, block_size, head_dim]"""
    widened: torch.Tensor
    """The same shape, with the memory in the order of [2 * kv_heads, blocks, ...]."""
    keys: torch.Tensor
    """[sequences, kv_heads, slots, head_dim]"""
    values: torch.Tensor


class PagedCache:
    """K and V of all layers. Holds finite numbers only: stale slots are read, masked, wherever a block is not full."""

    def __init__(
        self, shape: AttentionShape, num_layers: int, block_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.num_planes = 2 * shape.num_kv_heads
        self.head_dim = shape.head_dim
        self.num_layers = num_layers
        self.block_size = block_size
        self.dtype = dtype
        self.device = device
        self.paged: list[torch.Tensor] = []
        self.flat: list[torch.Tensor] = []
        """The same memory, [rows, head_dim]; see rows_of."""
        # The windows' memory: fresh memory would be faulted in anew in every layer.
        self.gathered = torch.empty(0, dtype=dtype, device=device)
        self.widened = torch.empty(0, device=device)

    @property
    def block_bytes(self) -> int:
        return self.num_layers * self.num_planes * self.block_size * self.head_dim * self.dtype.itemsize

    def allocate(self, num_blocks: int) -> None:
        shape = (num_blocks, self.num_planes, self.block_size, self.head_dim)
        self.paged = [self.zeros(shape) for _ in range(self.num_layers)]
        self.flat = [layer.view(-1, self.head_dim) for layer in self.paged]

    def zeros(self, shape: tuple[int, ...]) -> torch.Tensor:
        if self.device.type != "cpu":
            return torch.zeros(shape, dtype=self.dtype, device=self.device)
        # Pages of the operating system, zero and untouched. An allocator may hand out memory that was freed before
        # and has to be written to be zero: then the whole cache would be resident from the start.
        pages = mmap.mmap(-1, prod(shape) * self.dtype.itemsize)
        return torch.frombuffer(pages, dtype=self.dtype).view(shape)

    def rows_of(self, slots: Int64) -> Int64:
        """[T] slots -> [T * 2 * kv_heads], where in `flat` each head of each slot lies."""
        blocks, offsets = np.divmod(slots, self.block_size)
        first = blocks * (self.num_planes * self.block_size) + offsets
        return (first[:, None] + np.arange(self.num_planes) * self.block_size).reshape(-1)

    def write(self, layer: int, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """keys, values: [T, kv_heads, head_dim]; rows: see rows_of."""
        both = torch.cat((keys, values), 1).to(self.dtype).view(-1, self.head_dim)
        if self.dtype != torch.float16:
            both.clamp_(-LARGEST, LARGEST)
        self.flat[layer].index_copy_(0, rows, both.nan_to_num_())

    def window(self, num_blocks: int, number: int) -> Window:
        """Room to read num_blocks blocks at a time, of `number` sequences with equally many; shared by all windows."""
        shape = (num_blocks, self.num_planes, self.block_size, self.head_dim)
        size = prod(shape)
        if len(self.gathered) < size:
            self.gathered = torch.empty(size + size // 2, dtype=self.dtype, device=self.device)
            self.widened = torch.empty(size + size // 2, device=self.device)
        by_head = self.widened[:size].view(self.num_planes, num_blocks, self.block_size, self.head_dim)
        keys, values = by_head.view(2, -1, number, num_blocks // number * self.block_size, self.head_dim).transpose(
            1, 2
        )
        return Window(self.gathered[:size].view(shape), by_head.transpose(0, 1), keys, values)

    def read(self, layer: int, blocks: torch.Tensor, window: Window) -> None:
        """Brings the blocks into the window, until the next read."""
        torch.index_select(self.paged[layer], 0, blocks, out=window.gathered)
        window.widened.copy_(window.gathered)
