"""Which architecture is built by which file; the only place below launch that names modules by strings."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import torch

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.spec import Architecture
from engine.kernels.port import AttentionShape
from engine.kernels.select import select_kernels
from engine.layers.rope import inverse_frequencies
from engine.models.assembly import Assembly
from engine.models.decoder import Decoder
from engine.weights.load import Weights

Build = Callable[[Assembly[torch.Tensor]], Decoder[torch.Tensor]]

MODELS: dict[Architecture, str] = {
    "llama": "engine.models.llama:build",
    "qwen2": "engine.models.qwen2:build",
    "qwen3": "engine.models.qwen3:build",
}


def build_model(
    checkpoint: Checkpoint,
    *,
    dtype: str,
    device: str,
    kv_cache_dtype: str,
    block_size: int,
    max_rows: int,  # noqa: ARG001  # for back ends that lay out their buffers once
) -> tuple[Decoder[torch.Tensor], dict[str, str]]:
    """The model with its weights, and what was chosen automatically and why.

    max_rows: the most rows a step will have. The model keeps nothing of the checkpoint, which may be closed. Raises
    ConfigError when the device is not there.
    """
    spec = checkpoint.spec
    shape = AttentionShape(spec.num_heads, spec.num_kv_heads, spec.head_dim, inverse_frequencies(spec))
    kernels, chosen = select_kernels(
        shape, spec.num_layers, dtype=dtype, device=device, kv_cache_dtype=kv_cache_dtype, block_size=block_size
    )
    weights = Weights(spec, checkpoint.tensors, kernels)
    assembly = Assembly(spec, weights, kernels, torch.get_num_threads())
    return build_of(spec.architecture)(assembly), chosen


def build_of(architecture: Architecture) -> Build:
    module, name = MODELS[architecture].split(":")
    build: Build = vars(import_module(module))[name]
    return build
