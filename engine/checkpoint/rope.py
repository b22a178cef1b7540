"""Scalings of rotary positions that stretch a model's context, and what they do to the frequencies.

Owns the three kinds that are supported; every other kind is refused by name.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from engine.checkpoint.fields import Fields


class LinearRope(Struct, frozen=True, tag="linear"):
    """Every position divided by `factor` (arXiv 2306.15595)."""

    factor: float


class Llama3Rope(Struct, frozen=True, tag="llama3"):
    """Llama 3.1: long waves divided by `factor`, short ones untouched, a ramp between."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int


class FactorRope(Struct, frozen=True, tag="factors"):
    """One divisor for each frequency, as the tensor rope_freqs.weight of a GGUF file has it."""

    factors: tuple[float, ...]


RopeScaling: TypeAlias = LinearRope | Llama3Rope | FactorRope


def frequency_divisors(scaling: RopeScaling | None, theta: float, head_dim: int) -> NDArray[np.float64]:
    """What each inverse frequency theta ** (-2i / head_dim) is divided by; shape [head_dim / 2]."""
    half = head_dim // 2
    match scaling:
        case None:
            return np.ones(half)
        case LinearRope(factor=factor):
            return np.full(half, factor)
        case FactorRope(factors=factors):
            return np.array(factors, dtype=np.float64)
        case Llama3Rope():
            waves = 2 * math.pi * theta ** (np.arange(half) * 2 / head_dim)
            turns = scaling.original_max_position / waves  # turns of each wave in the original context
            ramp = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
            untouched = np.clip(ramp, 0.0, 1.0)
            divisors: NDArray[np.float64] = 1.0 / (untouched + (1.0 - untouched) / scaling.factor)
            return divisors


def rope_scaling_of(kind: str, source: Fields, factor_key: str, default_context: int) -> RopeScaling | None:
    """The scaling named `kind` with its numbers from `source`; ModelFileError for one that is not supported."""
    if kind in ("default", "none"):
        return None
    if kind == "linear":
        return LinearRope(source.positive(factor_key))
    if kind == "llama3":
        return llama3_of(source, factor_key, default_context)
    raise source.fault(f"rope scaling {kind!r} is not supported; supported are linear and llama3")


def llama3_of(source: Fields, factor_key: str, default_context: int) -> Llama3Rope:
    low, high = source.positive("low_freq_factor"), source.positive("high_freq_factor")
    if low >= high:
        raise source.fault(f"low_freq_factor {low} is not below high_freq_factor {high}")
    context = source.count_or("original_max_position_embeddings", default_context)
    return Llama3Rope(source.positive(factor_key), low, high, context)
