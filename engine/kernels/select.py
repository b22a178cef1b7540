"""Picks the back end and the weight format: by model, dtype and machine, never by row count.

Owns the choice and the words for it. Knows no layer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from engine.base.errors import ConfigError
from engine.kernels.cpu.cache import PagedCache
from engine.kernels.cpu.kernels import TorchKernels
from engine.kernels.cpu.linear import PlainFormat
from engine.kernels.port import AttentionShape, Kernels

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Selected(NamedTuple):
    kernels: Kernels[torch.Tensor]
    chosen: dict[str, str]
    """What was chosen automatically, and why, for the log and the banner."""


def select_kernels(
    shape: AttentionShape, num_layers: int, *, dtype: str, device: str, kv_cache_dtype: str, block_size: int
) -> Selected:
    """Raises ConfigError when the device is not there."""
    chosen: dict[str, str] = {}
    place = torch.device(device_of(device, chosen))
    if dtype == "auto":
        dtype = "float32"
        chosen["dtype"] = "float32"
    if kv_cache_dtype == "auto":
        kv_cache_dtype = dtype
        chosen["kv_cache_dtype"] = kv_cache_dtype
    cache = PagedCache(shape, num_layers, block_size, DTYPES[kv_cache_dtype], place)
    return Selected(TorchKernels(shape, PlainFormat(DTYPES[dtype], place), cache, place), chosen)


def device_of(device: str, chosen: dict[str, str]) -> str:
    has_cuda = torch.cuda.is_available()
    if device == "auto":
        device = "cuda" if has_cuda else "cpu"
        chosen["device"] = device
    elif device == "cuda" and not has_cuda:
        raise ConfigError("device is cuda, and torch finds no CUDA device here; use --device cpu")
    return device
