"""Rotary positions: by what angle each pair of a head turns per position (arXiv 2104.09864).

Owns the frequencies. The rotation itself is a kernel.
"""

from __future__ import annotations

import numpy as np

from engine.checkpoint.rope import frequency_divisors
from engine.checkpoint.spec import ModelSpec


def inverse_frequencies(spec: ModelSpec) -> tuple[float, ...]:
    """[head_dim / 2], with the model's scaling."""
    half = spec.head_dim // 2
    powers = spec.rope_theta ** -(np.arange(half) * 2 / spec.head_dim)
    divided = powers / frequency_divisors(spec.rope_scaling, spec.rope_theta, spec.head_dim)
    return tuple(divided.tolist())
