"""The paged KV cache of the torch back end.

Owns the layout: per layer one tensor [2 * kv_heads, slots, head_dim], the K heads before the V heads, so that one
gather brings both. Knows no sequence.
"""

from __future__ import annotations

import numpy as np
import torch

from engine.kernels.port import AttentionShape

NUMPY_DTYPES = {torch.float32: np.float32, torch.float16: np.float16, torch.bfloat16: np.uint16}


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
        self.layers: list[torch.Tensor] = []

    @property
    def block_bytes(self) -> int:
        return self.num_layers * self.num_planes * self.block_size * self.head_dim * self.dtype.itemsize

    def allocate(self, num_blocks: int) -> None:
        self.layers = [self.zeros(num_blocks * self.block_size) for _ in range(self.num_layers)]

    def zeros(self, num_slots: int) -> torch.Tensor:
        shape = (self.num_planes, num_slots, self.head_dim)
        if self.device.type != "cpu":
            return torch.zeros(shape, dtype=self.dtype, device=self.device)
        # numpy's zeros are untouched pages of the operating system; torch's are written.
        return torch.from_numpy(np.zeros(shape, NUMPY_DTYPES[self.dtype])).view(self.dtype)

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """keys, values: [rows, kv_heads, head_dim]; slots: [rows]."""
        both = torch.cat((keys, values), 1).transpose(0, 1).to(self.dtype)  # [planes, rows, head_dim]
        self.layers[layer].index_copy_(1, slots, both.nan_to_num_())

    def read(self, layer: int, blocks: torch.Tensor) -> torch.Tensor:
        """blocks: [n]; float32 [planes, n * block_size, head_dim]."""
        paged = self.layers[layer].view(self.num_planes, -1, self.block_size, self.head_dim)
        return paged.index_select(1, blocks).float().view(self.num_planes, -1, self.head_dim)
