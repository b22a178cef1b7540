"""What the runner asks of a model, whatever it is made of."""

from __future__ import annotations

from typing import Protocol

import torch

from engine.kernels.batch import StepBatch


class Model(Protocol):
    """A model that owns its weights and its KV cache."""

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""

    @property
    def block_bytes(self) -> int:
        """Bytes of one KV block over all layers, K and V."""

    def allocate_cache(self, num_blocks: int) -> None:
        """Makes room for the blocks without touching the memory. Called once, before the first forward."""

    def forward(self, batch: StepBatch) -> torch.Tensor:
        """Writes the K and V of all rows; returns float32 [L, vocab], the logits of batch.logits_rows.

        What is returned is the caller's until the next call.
        """
