"""Qwen3 (arXiv 2505.09388): Llama with RMSNorm on every query and key head before the rotation."""

from __future__ import annotations

from engine.kernels.port import B
from engine.layers.gqa import HeadNorms
from engine.models.assembly import Assembly
from engine.models.decoder import Decoder


def build(assembly: Assembly[B]) -> Decoder[B]:
    weights = assembly.weights
    return assembly.decoder(
        head_norms=lambda at: HeadNorms(weights.head_vector(f"{at}.q_norm"), weights.head_vector(f"{at}.k_norm"))
    )
