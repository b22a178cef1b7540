"""Llama (arXiv 2302.13971, 2407.21783), and what has its shape: SmolLM2 among them."""

from __future__ import annotations

from engine.kernels.port import B
from engine.models.assembly import Assembly
from engine.models.decoder import Decoder


def build(assembly: Assembly[B]) -> Decoder[B]:
    return assembly.decoder(head_norms=lambda _: None)
