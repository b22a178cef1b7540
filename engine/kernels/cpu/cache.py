"""The paged KV cache of the torch back end.

Owns the layout: per layer one tensor [2 * kv_heads, blocks, block_size, head_dim], the key heads before the value
heads, so that one gather brings both. Knows no sequence.
"""

from __future__ import annotations

import mmap
from math import prod
from typing import NamedTuple

import torch

from engine.kernels.port import AttentionShape

LARGEST = 65504.0
"""Of a number that is kept, in any format float16's largest: far beyond sane keys and values, and products of such
numbers do not overflow."""


class Window(NamedTuple):
    """Blocks read from the cache. The last three are the same float32 numbers."""

    gathered: torch.Tensor
    """As stored."""
    widened: torch.Tensor
    """[2 * kv_heads, blocks, block_size, head_dim]"""
    keys: torch.Tensor
    """[sequences, kv_heads, slots, head_dim]"""
    values: torch.Tensor


class PagedCache:
    """K and V of all layers. Holds finite numbers only: stale slots are read, masked, wherever a block is not full."""

    def __init__(
        self, shape: AttentionShape, num_layers: int, block_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.num_kv_heads = shape.num_kv_heads
        self.head_dim = shape.head_dim
        self.num_layers = num_layers
        self.block_size = block_size
        self.dtype = dtype
        self.device = device
        self.paged: list[torch.Tensor] = []
        self.flat: list[torch.Tensor] = []
        """The same memory, [2 * kv_heads, slots, head_dim]."""
        # The windows' memory: fresh memory would be faulted in anew in every layer.
        self.gathered = torch.empty(0, dtype=dtype, device=device)
        self.widened = torch.empty(0, device=device)

    @property
    def block_bytes(self) -> int:
        return self.num_layers * 2 * self.num_kv_heads * self.block_size * self.head_dim * self.dtype.itemsize

    def allocate(self, num_blocks: int) -> None:
        shape = (2 * self.num_kv_heads, num_blocks, self.block_size, self.head_dim)
        self.paged = [self.zeros(shape) for _ in range(self.num_layers)]
        self.flat = [layer.view(shape[0], -1, self.head_dim) for layer in self.paged]

    def zeros(self, shape: tuple[int, ...]) -> torch.Tensor:
        if self.device.type != "cpu":
            return torch.zeros(shape, dtype=self.dtype, device=self.device)
        # Pages of the operating system, zero and untouched. An allocator may hand out memory that was freed before
        # and has to be written to be zero: then the whole cache would be resident from the start.
        pages = mmap.mmap(-1, prod(shape) * self.dtype.itemsize)
        return torch.frombuffer(pages, dtype=self.dtype).view(shape)

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """keys, values: [rows, kv_heads, head_dim]; slots: [rows]."""
        both = torch.cat((keys, values), 1).transpose(0, 1).to(self.dtype)
        if self.dtype != torch.float16:
            both.clamp_(-LARGEST, LARGEST)
        self.flat[layer].index_copy_(1, slots, both.nan_to_num_())

    def window(self, num_blocks: int, number: int) -> Window:
        """Room to read num_blocks blocks at a time, of `number` sequences with equally many; shared by all windows."""
        shape = (2 * self.num_kv_heads, num_blocks, self.block_size, self.head_dim)
        size = prod(shape)
        if len(self.gathered) < size:
            self.gathered = torch.empty(size + size // 2, dtype=self.dtype, device=self.device)
            self.widened = (
                self.gathered if self.dtype == torch.float32 else torch.empty_like(self.gathered, dtype=torch.float32)
            )
        widened = self.widened[:size].view(shape)
        keys, values = widened.view(2, self.num_kv_heads, number, -1, self.head_dim).transpose(1, 2)
        return Window(self.gathered[:size].view(shape), widened, keys, values)

    def read(self, layer: int, blocks: torch.Tensor, window: Window) -> None:
        """Brings the blocks into the window, until the next read."""
        torch.index_select(self.paged[layer], 1, blocks, out=window.gathered)
        if self.dtype != torch.float32:
            window.widened.copy_(window.gathered)
