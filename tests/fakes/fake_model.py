"""A model without arithmetic: its logits are a hash of the tokens that it finds in its KV cache.

It reads and writes its cache only through the batch record, so that a wrong block, slot or length changes the logits.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from math import nan
from typing import Literal

import numpy as np
import torch

from engine.kernels.batch import StepBatch

EMPTY = -1


def history_logits(tokens: Sequence[int], vocab_size: int) -> np.ndarray:
    """float32 [vocab_size], what the model says after these tokens."""
    seed = zlib.crc32(np.array(tokens, dtype="<i4").tobytes())
    return np.random.default_rng(seed).standard_normal(vocab_size).astype(np.float32) * 3


class FakeModel:
    """spoil: histories after which the whole row is NaN ("row"), or its best entry only ("entry")."""

    block_bytes = 64

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        spoil: Mapping[tuple[int, ...], Literal["row", "entry"]] | None = None,
    ) -> None:
        self.vocab_size = vocab_size
        self.block_size = block_size
        self.spoil = dict(spoil or {})
        self.cache = np.empty(0, dtype=np.int64)
        self.batches: list[StepBatch] = []

    def allocate_cache(self, num_blocks: int) -> None:
        assert not self.cache.size, "the cache is allocated once"
        self.cache = np.full(num_blocks * self.block_size, EMPTY, dtype=np.int64)

    def forward(self, batch: StepBatch) -> torch.Tensor:
        self.batches.append(batch)
        self.cache[batch.slot_mapping] = batch.token_ids
        rows = [self.logits(self.history(batch, row)) for row in batch.logits_rows.tolist()]
        return torch.from_numpy(np.array(rows, dtype=np.float32).reshape(len(rows), self.vocab_size))

    def history(self, batch: StepBatch, row: int) -> list[int]:
        """The tokens of the row's sequence up to the row, as the cache has them."""
        sequence = int(np.searchsorted(batch.query_starts, row, side="right")) - 1
        assert batch.positions[batch.query_starts[sequence + 1] - 1] == batch.context_lens[sequence] - 1
        positions = np.arange(batch.positions[row] + 1)
        blocks = batch.block_tables[sequence, positions // self.block_size].astype(np.int64)
        tokens = self.cache[blocks * self.block_size + positions % self.block_size]
        assert (tokens != EMPTY).all(), "a slot is read that was never written"
        return tokens.tolist()

    def logits(self, tokens: list[int]) -> np.ndarray:
        logits = history_logits(tokens, self.vocab_size)
        match self.spoil.get(tuple(tokens)):
            case "row":
                logits[:] = nan
            case "entry":
                logits[logits.argmax()] = nan
        return logits
