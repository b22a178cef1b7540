"""The torch back end: the operators of the port over torch tensors.

Owns the step that runs. Knows no model; weight format, cache and padding rules are handed in.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from engine.kernels.batch import StepBatch
from engine.kernels.cpu.attention import LEAST_QUERIES, attend_rows, attend_tile
from engine.kernels.cpu.cache import PagedCache
from engine.kernels.cpu.embedding import DeviceTable, HostTable
from engine.kernels.cpu.linear import Linear, WeightFormat
from engine.kernels.cpu.norm import RmsNorms
from engine.kernels.cpu.step import Chunk, Group, Step, StepBuilder
from engine.kernels.port import AttentionShape, Floats, Lookup, RowSource


class TorchKernels:
    """Implements port.Kernels[torch.Tensor]. To be called under torch.inference_mode()."""

    def __init__(
        self,
        shape: AttentionShape,
        weights: WeightFormat,
        cache: PagedCache,
        builder: StepBuilder,
        device: torch.device,
    ) -> None:
        self.shape = shape
        self.weights = weights
        self.cache = cache
        self.builder = builder
        self.device = device
        self.norms = RmsNorms(device)
        self.step: Step | None = None
        # What the layers of a step write over: attention's rows, and queries padded to LEAST_QUERIES to a key head.
        self.attended = self.by_key_head = torch.zeros(0, device=device)
        # Neighbours make complex numbers, so that a rotation is one multiplication: 0, h/2, 1, h/2 + 1, ...
        self.rotary_order: NDArray[np.intp] | None = np.arange(shape.head_dim).reshape(2, -1).T.reshape(-1)

    @property
    def block_bytes(self) -> int:
        return self.cache.block_bytes

    def allocate_cache(self, num_blocks: int) -> None:
        self.cache.allocate(num_blocks)

    def pack(self, weight: Floats, bias: Floats | None) -> Linear:
        return self.weights.pack(torch.from_numpy(weight), None if bias is None else torch.from_numpy(bias))

    def table(self, rows: RowSource) -> Lookup[torch.Tensor]:
        if self.device.type == "cpu":
            return HostTable(self.running, rows)
        return DeviceTable(self.running, rows, self.weights.table_dtype, self.device)

    def vector(self, values: Floats) -> torch.Tensor:
        return torch.from_numpy(values).to(self.device, copy=True)

    def settle(self) -> None:
        self.weights.settle()

    def running(self) -> Step:
        assert self.step is not None, "begin comes first"
        return self.step

    def begin(self, batch: StepBatch) -> None:
        padded = self.weights.padded
        rows = padded(max(1, batch.num_rows))  # a dummy step computes one row of padding
        self.step = self.builder.build(batch, rows, padded(len(batch.logits_rows)))
        shape, widest = self.shape, max((len(group.mask) for group in self.step.groups), default=0)
        self.attended = torch.zeros(rows, shape.num_heads, shape.head_dim, device=self.device)
        self.by_key_head = torch.zeros(widest, shape.num_kv_heads, LEAST_QUERIES, shape.head_dim, device=self.device)

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
        return self.norms(x, weight, epsilon)

    def add_rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float
    ) -> torch.Tensor:
        return self.norms(residual.add_(x), weight, epsilon)

    def head_norm(
        self, qkv: torch.Tensor, query_weight: torch.Tensor, key_weight: torch.Tensor, epsilon: float
    ) -> torch.Tensor:
        heads = qkv.view(len(qkv), -1, self.shape.head_dim)
        first, last = self.shape.num_heads, self.shape.num_heads + self.shape.num_kv_heads
        heads[:, :first] = self.norms(heads[:, :first], query_weight, epsilon)
        heads[:, first:last] = self.norms(heads[:, first:last], key_weight, epsilon)
        return qkv

    def rope_and_cache_write(self, layer: int, qkv: torch.Tensor) -> torch.Tensor:
        step, shape = self.running(), self.shape
        turning = (shape.num_heads + shape.num_kv_heads) * shape.head_dim
        pairs = torch.view_as_complex(qkv[:, :turning].view(len(qkv), -1, shape.head_dim // 2, 2))
        turned = torch.view_as_real(pairs * step.rotations).flatten(2)  # [R, heads + kv_heads, head_dim]
        values = qkv[: step.num_rows, turning:].view(-1, shape.num_kv_heads, shape.head_dim)
        self.cache.write(layer, step.cache_rows, turned[: step.num_rows, shape.num_heads :], values)
        return turned[:, : shape.num_heads]

    def paged_attention(self, layer: int, queries: torch.Tensor) -> torch.Tensor:
        step = self.running()
        for group in step.groups:
            self.attend_group(layer, group, queries)
        for chunk in step.chunks:
            self.attend_chunk(layer, chunk, queries)
        return self.attended.view(len(queries), -1)

    def attend_group(self, layer: int, group: Group, queries: torch.Tensor) -> None:
        """Rows of different sequences, their heads by the key head that they share."""
        number, shared = len(group.mask), self.shape.num_heads // self.shape.num_kv_heads
        shape = (number, self.shape.num_kv_heads, shared, self.shape.head_dim)
        self.cache.read(layer, group.blocks, group.window)
        rows = queries[group.rows].view(shape)
        if shared < LEAST_QUERIES:
            self.by_key_head[:number, :, :shared] = rows
            rows = self.by_key_head[:number]
        attended = attend_rows(rows, group.window.keys, group.window.values, group.mask)[:, :, :shared]
        self.attended.view(-1, *shape[1:])[group.rows] = attended

    def attend_chunk(self, layer: int, chunk: Chunk, queries: torch.Tensor) -> None:
        self.cache.read(layer, chunk.blocks, chunk.window)
        keys, values = chunk.window.keys, chunk.window.values
        for tile in chunk.tiles:
            seen = slice(0, tile.num_slots)
            attended = attend_tile(queries[tile.rows], keys[:, :, seen], values[:, :, seen], tile.mask)
            self.attended[tile.rows] = attended

    def silu_and_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        inner = gate_up.shape[1] // 2
        return F.silu(gate_up[:, :inner]).mul_(gate_up[:, inner:])

    def gather_rows(self, x: torch.Tensor) -> torch.Tensor:
        return x.index_select(0, self.running().logits_rows)

    def finish(self, logits: torch.Tensor) -> torch.Tensor:
        return logits[: self.running().num_logits]
