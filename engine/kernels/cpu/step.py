"""What the operators of one step share: the batch as tensors, and the attention calls that it takes.

Owns the order of rows and which of them attend together. Computed once a step, read by every layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engine.kernels.batch import Int32, StepBatch
from engine.kernels.cpu.attention import LEAST_QUERIES
from engine.kernels.cpu.cache import PagedCache, Window
from engine.kernels.cpu.canonical import LARGEST_TILE, LengthRule
from engine.kernels.port import AttentionShape

Indices = NDArray[np.intp]

LEAST_CLASS = 256
"""Contexts up to this long share a group; above, each doubling has its own: padding is less than the contexts."""
GROUP_SLOTS = 2048
"""Context gathered at a time for rows of different sequences, so that it stays in a core's cache."""


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences with one row each and contexts of similar length."""

    rows: torch.Tensor | slice
    """[n]"""
    blocks: torch.Tensor
    """[n * blocks of the longest context]"""
    window: Window
    mask: torch.Tensor
    """[n, 1, 1, slots]: 0 where the row may look, -inf elsewhere."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Neighbouring rows of one sequence."""

    rows: slice
    num_slots: int
    mask: torch.Tensor
    """[rows, slots], at least LEAST_QUERIES rows."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Several rows of one sequence."""

    blocks: torch.Tensor
    window: Window
    tiles: list[Tile]


@dataclass(frozen=True, slots=True)
class Step:
    num_rows: int
    """T"""
    num_logits: int
    """L"""
    host_tokens: Int32
    """[R], padded"""
    rotations: torch.Tensor
    """complex64 [R, 1, head_dim / 2]"""
    cache_rows: torch.Tensor
    """[T * 2 * kv_heads]; see PagedCache.rows_of."""
    logits_rows: torch.Tensor
    """[L], padded"""
    groups: list[Group]
    chunks: list[Chunk]


class StepBuilder:
    def __init__(self, shape: AttentionShape, cache: PagedCache, lengths: LengthRule, device: torch.device) -> None:
        self.frequencies = np.array(shape.inverse_frequencies)
        self.cache = cache
        self.block_size = cache.block_size
        self.lengths = lengths
        self.device = device

    def build(self, batch: StepBatch, padded_rows: int, padded_logits: int) -> Step:
        counts = np.diff(batch.query_starts)
        angles = padded(batch.positions, padded_rows)[:, None, None] * self.frequencies
        return Step(
            num_rows=batch.num_rows,
            num_logits=len(batch.logits_rows),
            host_tokens=padded(batch.token_ids, padded_rows),
            rotations=self.tensor(np.exp(1j * angles).astype(np.complex64)),
            cache_rows=self.tensor(self.cache.rows_of(batch.slot_mapping)),
            logits_rows=self.tensor(padded(batch.logits_rows, padded_logits)),
            groups=self.groups(batch, np.flatnonzero(counts == 1)),
            chunks=[self.chunk(batch, int(sequence)) for sequence in np.flatnonzero(counts > 1)],
        )

    def groups(self, batch: StepBatch, sequences: Indices) -> list[Group]:
        classes = length_classes(batch.context_lens[sequences])
        return [
            self.group(batch, part)
            for each in np.unique(classes)
            for part in self.parts(batch, sequences[classes == each])
        ]

    def parts(self, batch: StepBatch, sequences: Indices) -> list[Indices]:
        """Pieces that hold at most GROUP_SLOTS together, or one sequence."""
        slots = self.padded_slots(int(batch.context_lens[sequences].max()))
        size = max(1, GROUP_SLOTS // slots)
        return [sequences[first : first + size] for first in range(0, len(sequences), size)]

    def group(self, batch: StepBatch, sequences: Indices) -> Group:
        lengths = batch.context_lens[sequences]
        num_slots = self.padded_slots(int(lengths.max()))
        rows = batch.query_starts[sequences]
        are_neighbours = int(rows[-1] - rows[0]) == len(rows) - 1
        blocks = self.blocks(batch, sequences, num_slots)
        return Group(
            rows=slice(int(rows[0]), int(rows[-1]) + 1) if are_neighbours else self.tensor(rows),
            blocks=blocks,
            window=self.cache.window(len(blocks), len(sequences)),
            mask=self.tensor(hiding(lengths - 1, num_slots)[:, None, None]),
        )

    def chunk(self, batch: StepBatch, sequence: int) -> Chunk:
        begin, end = batch.query_starts[sequence : sequence + 2].tolist()
        num_slots = self.padded_slots(int(batch.context_lens[sequence]))
        tiles = [self.tile(batch, first, min(first + LARGEST_TILE, end)) for first in range(begin, end, LARGEST_TILE)]
        blocks = self.blocks(batch, np.array([sequence]), num_slots)
        return Chunk(blocks, self.cache.window(len(blocks), 1), tiles)

    def tile(self, batch: StepBatch, first: int, end: int) -> Tile:
        positions = batch.positions[first:end]
        num_slots = self.padded_slots(int(positions[-1]) + 1)
        missing = max(0, LEAST_QUERIES - len(positions))
        mask = hiding(np.pad(positions, (0, missing), mode="edge") if missing else positions, num_slots)
        return Tile(slice(first, end), num_slots, self.tensor(mask))

    def blocks(self, batch: StepBatch, sequences: Indices, num_slots: int) -> torch.Tensor:
        """[sequences * blocks], block 0 beyond a sequence's own: the mask hides it."""
        width = num_slots // self.block_size
        tables = batch.block_tables[sequences, :width]
        missing = width - tables.shape[1]
        return self.tensor((np.pad(tables, ((0, 0), (0, missing))) if missing else tables).reshape(-1))

    def padded_slots(self, length: int) -> int:
        return self.lengths.padded(length, self.block_size)

    def tensor(self, array: NDArray[Any]) -> torch.Tensor:
        """Any: a column keeps the dtype it has."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def hiding(positions: Int32, num_slots: int) -> NDArray[np.float32]:
    """[rows, slots]: 0 up to each row's position, -inf beyond."""
    return np.where(np.arange(num_slots) <= positions[:, None], np.float32(0), np.float32(-np.inf))


def padded(column: NDArray[Any], length: int) -> NDArray[Any]:
    """[length], 0 at the end; Any: of the column's dtype."""
    if len(column) == length:
        return column
    out = np.zeros(length, column.dtype)
    out[: len(column)] = column
    return out


def length_classes(lengths: Int32) -> Int32:
    """0 up to LEAST_CLASS, then one more for each doubling."""
    classes: Int32 = np.ceil(np.log2(np.maximum(lengths, LEAST_CLASS) / LEAST_CLASS)).astype(np.int32)
    return classes
