"""Puts a decoder together from a model's weights: which tensor goes where.

Owns the names of the parts. What one architecture has and another has not is in its own file.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic

from engine.checkpoint.spec import ModelSpec
from engine.kernels.port import B, Kernels, Projection
from engine.layers.gqa import Attention, HeadNorms
from engine.layers.mlp import Mlp
from engine.layers.norm import RmsNorm
from engine.models.decoder import Decoder, DecoderLayer
from engine.weights.load import Weights


class Assembly(Generic[B]):
    """Biases come with their projections wherever the model has them."""

    def __init__(self, spec: ModelSpec, weights: Weights[B], kernels: Kernels[B], threads: int = 1) -> None:
        """threads: how many decode and pack at once."""
        self.spec = spec
        self.weights = weights
        self.kernels = kernels
        self.threads = threads

    def decoder(self, head_norms: Callable[[str], HeadNorms[B] | None]) -> Decoder[B]:
        """head_norms: for the name of an attention, the norms of its query and key heads."""
        with ThreadPoolExecutor(self.threads) as pool:
            head = pool.submit(self.head)  # the longest first
            layers = list(pool.map(lambda index: self.layer(index, head_norms), range(self.spec.num_layers)))
            table = self.weights.table("model.embed_tokens")
            norm, packed_head = self.norm("model.norm"), head.result()
        self.kernels.settle()
        return Decoder(self.kernels, table, layers, norm, packed_head, self.spec.vocab_size)

    def head(self) -> Projection[B]:
        return self.weights.projection("model.embed_tokens" if self.spec.tie_word_embeddings else "lm_head")

    def layer(self, index: int, head_norms: Callable[[str], HeadNorms[B] | None]) -> DecoderLayer[B]:
        at = f"model.layers.{index}"
        return DecoderLayer(
            self.norm(f"{at}.input_layernorm"),
            self.attention(index, f"{at}.self_attn", head_norms(f"{at}.self_attn")),
            self.norm(f"{at}.post_attention_layernorm"),
            self.mlp(f"{at}.mlp"),
        )

    def attention(self, index: int, at: str, head_norms: HeadNorms[B] | None) -> Attention[B]:
        qkv = self.weights.projection(f"{at}.q_proj", f"{at}.k_proj", f"{at}.v_proj")
        output = self.weights.projection(f"{at}.o_proj")
        return Attention(self.kernels, index, qkv, output, head_norms, self.spec.rms_norm_eps)

    def mlp(self, at: str) -> Mlp[B]:
        gate_up = self.weights.projection(f"{at}.gate_proj", f"{at}.up_proj")
        return Mlp(self.kernels, gate_up, self.weights.projection(f"{at}.down_proj"))

    def norm(self, name: str) -> RmsNorm[B]:
        return RmsNorm(self.kernels, self.weights.vector(name), self.spec.rms_norm_eps)
