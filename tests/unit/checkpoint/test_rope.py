from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint.rope import FactorRope, LinearRope, Llama3Rope, frequency_divisors

LLAMA_3_1 = Llama3Rope(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position=8192)


def llama3_by_waves(scaling: Llama3Rope, theta: float, head_dim: int) -> list[float]:
    """The definition of Llama 3.1's reference code, wave by wave."""
    divisors = []
    for i in range(head_dim // 2):
        frequency = theta ** (-2 * i / head_dim)
        wave = 2 * math.pi / frequency
        if wave < scaling.original_max_position / scaling.high_freq_factor:
            scaled = frequency
        elif wave > scaling.original_max_position / scaling.low_freq_factor:
            scaled = frequency / scaling.factor
        else:
            smooth = scaling.original_max_position / wave - scaling.low_freq_factor
            smooth /= scaling.high_freq_factor - scaling.low_freq_factor
            scaled = (1 - smooth) * frequency / scaling.factor + smooth * frequency
        divisors.append(frequency / scaled)
    return divisors


@given(
    st.builds(
        Llama3Rope,
        factor=st.floats(1, 64),
        low_freq_factor=st.floats(0.5, 2),
        high_freq_factor=st.floats(2.5, 8),
        original_max_position=st.integers(64, 65_536),
    ),
    st.floats(1e3, 1e6),
    st.sampled_from([16, 64, 128]),
)
def test_llama_3_divides_each_wave_as_its_definition_says(scaling, theta, head_dim):
    expected = llama3_by_waves(scaling, theta, head_dim)
    assert frequency_divisors(scaling, theta, head_dim) == pytest.approx(expected, rel=1e-9)


def test_llama_3_has_three_regions():
    divisors = frequency_divisors(LLAMA_3_1, 5e5, 128)
    assert divisors[0] == 1.0 and divisors[-1] == 8.0 and np.all(np.diff(divisors) >= 0)


def test_linear_divides_every_frequency_alike():
    assert frequency_divisors(LinearRope(4.0), 1e4, 8).tolist() == [4.0] * 4


def test_no_scaling_divides_by_one():
    assert frequency_divisors(None, 1e4, 8).tolist() == [1.0] * 4


def test_factors_are_the_divisors():
    assert frequency_divisors(FactorRope((1.0, 2.5)), 1e4, 4).tolist() == [1.0, 2.5]
