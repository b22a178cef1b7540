"""Picks the back end and the weight format: by model, dtype and machine, never by row count.

Owns the choice and the words for it. Knows no layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F

from engine.base.errors import ConfigError, EngineFault
from engine.kernels.cpu.cache import PagedCache
from engine.kernels.cpu.canonical import COARSE, agreeing_rule
from engine.kernels.cpu.kernels import TorchKernels
from engine.kernels.cpu.linear import PlainFormat, WeightFormat
from engine.kernels.cpu.linear_half import HalfPackedFormat
from engine.kernels.cpu.linear_mkldnn import ReorderedFormat
from engine.kernels.cpu.step import StepBuilder
from engine.kernels.machine import Machine, this_machine
from engine.kernels.port import AttentionShape, Kernels

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
TOLERANCE = 0.02
"""Of a format against float32, relative to the largest result: bfloat16 has eight bits."""


class Selected(NamedTuple):
    kernels: Kernels[torch.Tensor]
    chosen: dict[str, str]
    """What was chosen automatically, and why, for the log and the banner."""


class Candidate(NamedTuple):
    dtype: str
    words: str
    make: Callable[[], WeightFormat]


def select_kernels(
    shape: AttentionShape, num_layers: int, *, dtype: str, device: str, kv_cache_dtype: str, block_size: int
) -> Selected:
    """Raises ConfigError when the device is not there."""
    chosen: dict[str, str] = {}
    machine = this_machine()
    place = torch.device(device_of(device, chosen))
    candidate, weights = first_working(candidates(dtype, place, machine), place, chosen)
    chosen["dtype" if dtype == "auto" else "kernels"] = candidate.words
    if kv_cache_dtype == "auto":
        kv_cache_dtype = candidate.dtype
        chosen["kv_cache_dtype"] = f"{kv_cache_dtype}, as the weights"
    rule = agreeing_rule(shape) if place.type == "cpu" else None
    if rule is None and place.type == "cpu":
        chosen["attention"] = "numbers may depend on the batch: no padding of contexts was found that prevents it here"
    cache = PagedCache(shape, num_layers, block_size, DTYPES[kv_cache_dtype], place)
    builder = StepBuilder(shape, cache, rule or COARSE, place)
    return Selected(TorchKernels(shape, weights, cache, builder, place), chosen)


def device_of(device: str, chosen: dict[str, str]) -> str:
    """`auto` resolved, and noted in `chosen`. Raises ConfigError when CUDA is asked for and not there."""
    has_cuda = this_machine().has_cuda
    if device == "auto":
        device = "cuda" if has_cuda else "cpu"
        chosen["device"] = device
    elif device == "cuda" and not has_cuda:
        raise ConfigError("device is cuda, and torch finds no CUDA device here; use --device cpu")
    return device


def candidates(dtype: str, place: torch.device, machine: Machine) -> list[Candidate]:
    """Best first; the last one works everywhere."""
    if place.type != "cpu":
        name = "bfloat16" if dtype == "auto" else dtype
        return [plain(name, place, f"{name}, torch on {place.type}")]
    reordered = Candidate("bfloat16", "bfloat16, reordered by oneDNN", lambda: ReorderedFormat(torch.bfloat16))
    packed = Candidate(
        "float16",
        "float16 weights packed by FBGEMM, float32 arithmetic"
        + ("" if machine.has_bfloat16_units else " (this processor has no bfloat16 units)"),
        HalfPackedFormat,
    )
    by_dtype = {
        "auto": [reordered] * machine.has_bfloat16_units + [packed] * machine.has_fbgemm,
        "bfloat16": [reordered] * machine.has_bfloat16_units,
        "float16": [packed] * machine.has_fbgemm,
        "float32": [],
    }
    last = "float32" if dtype == "auto" else dtype
    return [*by_dtype[dtype], plain(last, place, f"{last}, torch's own kernels")]


def plain(dtype: str, place: torch.device, words: str) -> Candidate:
    return Candidate(dtype, words, lambda: PlainFormat(DTYPES[dtype], place))


def first_working(
    options: list[Candidate], place: torch.device, chosen: dict[str, str]
) -> tuple[Candidate, WeightFormat]:
    for candidate in options:
        try:
            weights = candidate.make()
            fault = disagreement(weights, place)
        except RuntimeError as error:  # what torch raises where an operator is not built for the processor
            fault = str(error).partition("\n")[0]
        if fault is None:
            return candidate, weights
        chosen[f"not {candidate.dtype}"] = f"{candidate.words}: {fault}"
    raise EngineFault(f"no weight format works here: {chosen}")


def disagreement(weights: WeightFormat, place: torch.device) -> str | None:
    """What is wrong with a format on this machine: None where it agrees with float32 at several row counts."""
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(96, 160, generator=generator), torch.randn(96, generator=generator)
    x = torch.randn(70, 160, generator=generator)
    expected = F.linear(x, weight, bias)
    layer = weights.pack(weight, bias)
    for rows in (1, 2, 33, 70):
        error = (layer(x[:rows].to(place)).cpu() - expected[:rows]).abs().max() / expected.abs().max()
        if not error <= TOLERANCE:
            return f"{rows} rows are off by {error:.1%} of the largest number"
    return None
