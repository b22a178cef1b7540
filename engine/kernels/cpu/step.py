"""What the operators of one step share: the batch as tensors, and the attention calls it takes.

Owns the order of rows and which of them attend together. Computed once a step, read by every layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from engine.kernels.batch import Int32, StepBatch
from engine.kernels.port import AttentionShape

Indices = NDArray[np.intp]

QUERY_TILE = 256
"""Rows of a chunk that attend in one call; bounds the mask to this many rows of the context."""
LEAST_GROUP = 256
"""Contexts up to this long share a group; above, each power of two has its own."""


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Sequences with one row each and contexts of similar length."""

    rows: torch.Tensor | slice
    """[n]"""
    blocks: torch.Tensor
    """[n * blocks of the longest context]"""
    mask: torch.Tensor
    """[n, 1, 1, slots]: 0 where the row may look, -inf elsewhere."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Neighbouring rows of one sequence."""

    rows: slice
    num_slots: int
    mask: torch.Tensor
    """[rows, slots]"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Several rows of one sequence."""

    blocks: torch.Tensor
    tiles: list[Tile]


@dataclass(frozen=True, slots=True)
class Step:
    num_rows: int
    num_logits: int
    token_ids: torch.Tensor
    """[R], padded"""
    rotations: torch.Tensor
    """complex64 [R, 1, head_dim / 2]"""
    slots: torch.Tensor
    """[T]"""
    logits_rows: torch.Tensor
    """[L], padded"""
    groups: list[DecodeGroup]
    chunks: list[Chunk]


class StepBuilder:
    def __init__(self, shape: AttentionShape, block_size: int, device: torch.device) -> None:
        self.frequencies = np.array(shape.inverse_frequencies)
        self.block_size = block_size
        self.device = device

    def build(self, batch: StepBatch, padded_rows: int, padded_logits: int) -> Step:
        counts = np.diff(batch.query_starts)
        positions = padded(batch.positions, padded_rows)
        angles = positions[:, None, None] * self.frequencies
        return Step(
            num_rows=batch.num_rows,
            num_logits=len(batch.logits_rows),
            token_ids=self.tensor(padded(batch.token_ids, padded_rows)),
            rotations=self.tensor(np.exp(1j * angles).astype(np.complex64)),
            slots=self.tensor(batch.slot_mapping),
            logits_rows=self.tensor(padded(batch.logits_rows, padded_logits)),
            groups=self.groups(batch, np.flatnonzero(counts == 1)),
            chunks=[self.chunk(batch, int(sequence)) for sequence in np.flatnonzero(counts > 1)],
        )

    def groups(self, batch: StepBatch, sequences: Indices) -> list[DecodeGroup]:
        classes = length_classes(batch.context_lens[sequences])
        return [self.group(batch, sequences[classes == each]) for each in np.unique(classes)]

    def group(self, batch: StepBatch, sequences: Indices) -> DecodeGroup:
        lengths = batch.context_lens[sequences]
        num_slots = self.padded_slots(int(lengths.max()))
        rows = batch.query_starts[sequences]
        mask = np.where(np.arange(num_slots) < lengths[:, None, None, None], np.float32(0), np.float32(-np.inf))
        return DecodeGroup(
            rows=slice(int(rows[0]), int(rows[-1]) + 1) if np.ptp(rows) == len(rows) - 1 else self.tensor(rows),
            blocks=self.blocks(batch, sequences, num_slots),
            mask=self.tensor(mask),
        )

    def chunk(self, batch: StepBatch, sequence: int) -> Chunk:
        begin, end = batch.query_starts[sequence : sequence + 2].tolist()
        num_slots = self.padded_slots(int(batch.context_lens[sequence]))
        tiles = [self.tile(batch, first, min(first + QUERY_TILE, end)) for first in range(begin, end, QUERY_TILE)]
        return Chunk(self.blocks(batch, np.array([sequence]), num_slots), tiles)

    def tile(self, batch: StepBatch, first: int, end: int) -> Tile:
        positions = batch.positions[first:end]
        num_slots = self.padded_slots(int(positions[-1]) + 1)
        mask = np.where(np.arange(num_slots) <= positions[:, None], np.float32(0), np.float32(-np.inf))
        return Tile(slice(first, end), num_slots, self.tensor(mask))

    def blocks(self, batch: StepBatch, sequences: Indices, num_slots: int) -> torch.Tensor:
        """[sequences * blocks], block 0 beyond a sequence's own: the mask hides it."""
        width = num_slots // self.block_size
        tables = batch.block_tables[sequences, :width]
        missing = width - tables.shape[1]
        return self.tensor((np.pad(tables, ((0, 0), (0, missing))) if missing else tables).reshape(-1))

    def padded_slots(self, length: int) -> int:
        return -(-length // self.block_size) * self.block_size

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def padded(column: np.ndarray, length: int) -> np.ndarray:
    """[length], 0 at the end."""
    out = np.zeros(length, column.dtype)
    out[: len(column)] = column
    return out


def length_classes(lengths: Int32) -> Int32:
    """0 up to LEAST_GROUP, then one more for each doubling: padding costs less than the context itself."""
    classes: Int32 = np.ceil(np.log2(np.maximum(lengths, LEAST_GROUP) / LEAST_GROUP)).astype(np.int32)
    return classes
