"""The paged KV cache of the torch back end.

Owns the layout: per layer one tensor [2 * kv_heads, blocks, block_size, head_dim], the key heads before the value
heads, so that one gather brings both. Knows no sequence.
"""

from __future__ import annotations

import numpy as np
import torch

from engine.kernels.port import AttentionShape

# numpy has no bfloat16: sixteen zero bits are its zero too.
ZEROS = {torch.float32: np.float32, torch.float16: np.float16, torch.bfloat16: np.uint16}
LARGEST = 65504.0
"""Of a number that is kept, in any format float16's largest: far beyond sane keys and values, and products of such
numbers do not overflow."""


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
        # Gathered blocks as stored, and widened: fresh memory for them would be faulted in anew in every layer.
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
        # numpy's zeros are untouched pages of the operating system; torch's are written.
        return torch.from_numpy(np.zeros(shape, ZEROS[self.dtype])).view(self.dtype)

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """keys, values: [rows, kv_heads, head_dim]; slots: [rows]."""
        both = torch.cat((keys, values), 1).transpose(0, 1).to(self.dtype)
        if self.dtype != torch.float16:
            both.clamp_(-LARGEST, LARGEST)
        self.flat[layer].index_copy_(1, slots, both.nan_to_num_())

    def read(self, layer: int, blocks: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V, each float32 [number, kv_heads, slots, head_dim], until the next read.

        blocks: [number * blocks of each].
        """
        shape = (2 * self.num_kv_heads, len(blocks), self.block_size, self.head_dim)
        gathered = self.room(shape)
        torch.index_select(self.paged[layer], 1, blocks, out=gathered)
        if self.dtype != torch.float32:
            gathered = self.widened[: gathered.numel()].view(shape).copy_(gathered)
        keys, values = gathered.view(2, self.num_kv_heads, number, -1, self.head_dim).transpose(1, 2)
        return keys, values

    def room(self, shape: tuple[int, ...]) -> torch.Tensor:
        """The front of the scratch, which grows by halves."""
        size = int(np.prod(shape))
        if len(self.gathered) < size:
            self.gathered = torch.empty(size + size // 2, dtype=self.dtype, device=self.device)
            if self.dtype != torch.float32:
                self.widened = torch.empty(size + size // 2, device=self.device)
        return self.gathered[:size].view(shape)
