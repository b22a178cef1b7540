"""The decoder that all models here share: embedding, layers of attention and MLP around a residual, norm, head.

Owns the order of a forward pass. Knows no architecture by name and no device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from engine.kernels.batch import StepBatch
from engine.kernels.port import B, Kernels, Lookup, Projection
from engine.layers.gqa import Attention
from engine.layers.mlp import Mlp
from engine.layers.norm import RmsNorm


class DecoderLayer(Generic[B]):
    def __init__(self, attention_norm: RmsNorm[B], attention: Attention[B], mlp_norm: RmsNorm[B], mlp: Mlp[B]) -> None:
        self.attention_norm = attention_norm
        self.attention = attention
        self.mlp_norm = mlp_norm
        self.mlp = mlp


class Decoder(Generic[B]):
    """Implements worker.port.Model, where buffers are tensors."""

    def __init__(
        self,
        kernels: Kernels[B],
        embedding: Lookup[B],
        layers: Sequence[DecoderLayer[B]],
        norm: RmsNorm[B],
        head: Projection[B],
        vocab_size: int,
    ) -> None:
        self.kernels = kernels
        self.embedding = embedding
        self.layers = layers
        self.norm = norm
        self.head = head
        self.vocab_size = vocab_size
        # What follows each layer: the next one's first norm, or the last.
        self.norms_after = [*(layer.attention_norm for layer in layers[1:]), norm]

    @property
    def block_bytes(self) -> int:
        return self.kernels.block_bytes

    def allocate_cache(self, num_blocks: int) -> None:
        self.kernels.allocate_cache(num_blocks)

    def forward(self, batch: StepBatch) -> B:
        """Writes K and V of all rows; returns float32 [L, vocab]."""
        self.kernels.begin(batch)
        residual = self.embedding()
        normed = self.layers[0].attention_norm(residual)
        for layer, next_norm in zip(self.layers, self.norms_after, strict=True):
            normed = layer.mlp_norm.of_sum(layer.attention(normed), residual)
            normed = next_norm.of_sum(layer.mlp(normed), residual)
        return self.kernels.finish(self.head(self.kernels.gather_rows(normed)))
