from __future__ import annotations

import numpy as np
import pytest

from engine.checkpoint.rope import FactorRope, LinearRope, Llama3Rope
from engine.checkpoint.spec import ModelSpec
from engine.kernels.port import AttentionShape
from engine.layers.gqa import Attention, HeadNorms
from engine.layers.mlp import Mlp
from engine.layers.norm import RmsNorm
from engine.layers.rope import inverse_frequencies
from tests.fakes.numpy_kernels import NumpyKernels, array
from tests.oracles.attention_reference import causal_attention, rotate_halves
from tests.oracles.decoder_reference import inverse_frequencies as reference_frequencies
from tests.oracles.decoder_reference import rms_norm
from tests.oracles.paged_steps import PagedSequences

SHAPE = AttentionShape(num_heads=2, num_kv_heads=1, head_dim=4, inverse_frequencies=(1.0, 0.1))


def spec(**changes: object) -> ModelSpec:
    numbers = {
        "architecture": "llama", "num_layers": 1, "hidden_size": 8, "num_heads": 2, "num_kv_heads": 1, "head_dim": 16,
        "intermediate_size": 8, "vocab_size": 8, "max_position": 64, "rms_norm_eps": 1e-5, "rope_theta": 10_000.0,
    }  # fmt: skip
    return ModelSpec(**(numbers | changes))


LLAMA3 = {
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
}  # fmt: skip


@pytest.mark.parametrize(
    ("scaling", "config"),
    [
        (None, None),
        (LinearRope(4.0), {"rope_type": "linear", "factor": 4.0}),
        (Llama3Rope(8.0, 1.0, 4.0, 64), {"rope_type": "llama3", **LLAMA3}),
    ],
    ids=["none", "linear", "llama3"],
)
def test_frequencies_are_scaled_as_the_model_says(scaling, config):
    found = inverse_frequencies(spec(rope_scaling=scaling))
    expected = reference_frequencies({"head_dim": 16, "rope_theta": 10_000.0, "rope_scaling": config})
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_frequencies_are_divided_by_the_factors_of_a_file():
    factors = tuple(float(factor) for factor in range(1, 9))
    found, plain = inverse_frequencies(spec(rope_scaling=FactorRope(factors))), inverse_frequencies(spec())
    np.testing.assert_allclose(np.array(found) * factors, plain, rtol=1e-12)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("has_head_norms", [False, True])
def test_attention_norms_then_turns_then_attends_then_projects(has_head_norms):
    kernels = NumpyKernels(SHAPE, 1, 16)
    qkv_weight, output_weight = numbers(16, 6), numbers(6, 8, seed=1)
    query_norm, key_norm = numbers(4, seed=2), numbers(4, seed=3)
    norms = HeadNorms(kernels.vector(query_norm), kernels.vector(key_norm)) if has_head_norms else None
    attention = Attention(
        kernels, 0, kernels.pack(qkv_weight, None), kernels.pack(output_weight, None), norms, epsilon=1e-5
    )
    x = numbers(5, 6, seed=4).astype(np.float64)
    kernels.begin(PagedSequences(1).step([(0, [0] * 5)]))
    queries, keys, values = np.split((x @ qkv_weight.T).reshape(5, 4, 4), [2, 3], axis=1)
    if has_head_norms:
        queries, keys = rms_norm(queries, query_norm, 1e-5), rms_norm(keys, key_norm, 1e-5)
    turned = (rotate_halves(heads, np.arange(5), np.array([1.0, 0.1])) for heads in (queries, keys))
    expected = causal_attention(*turned, values).reshape(5, 8) @ output_weight.T
    np.testing.assert_allclose(np.asarray(attention(array(x))), expected, rtol=1e-10)


def test_the_mlp_gates_up_by_gate():
    kernels = NumpyKernels(SHAPE, 1, 16)
    gate, up, down, x = numbers(5, 3), numbers(5, 3, seed=1), numbers(3, 5, seed=2), numbers(4, 3, seed=3)
    mlp = Mlp(kernels, kernels.pack(np.concatenate([gate, up]), None), kernels.pack(down, None))
    gated = x.astype(np.float64) @ gate.T
    expected = (gated / (1 + np.exp(-gated)) * (x @ up.T.astype(np.float64))) @ down.T
    np.testing.assert_allclose(np.asarray(mlp(array(x))), expected, rtol=1e-10)


def test_a_norm_of_a_sum_leaves_the_sum_in_the_residual():
    kernels = NumpyKernels(SHAPE, 1, 16)
    weight, x, residual = numbers(6), numbers(4, 6, seed=1), numbers(4, 6, seed=2)
    norm, kept = RmsNorm(kernels, kernels.vector(weight), 1e-5), array(residual)
    found = norm.of_sum(array(x), kept)
    total = x.astype(np.float64) + residual
    np.testing.assert_allclose(np.asarray(kept), total)
    np.testing.assert_allclose(np.asarray(found), rms_norm(total, weight, 1e-5))
    np.testing.assert_allclose(np.asarray(norm(array(total))), np.asarray(found))
