"""Qwen2 (arXiv 2407.10671): Llama with biases on the query, key and value projections, which come with the weights."""

from __future__ import annotations

from engine.kernels.port import B
from engine.models.assembly import Assembly
from engine.models.decoder import Decoder


def build(assembly: Assembly[B]) -> Decoder[B]:
    return assembly.decoder(head_norms=lambda _: None)
