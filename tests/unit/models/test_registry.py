from __future__ import annotations

import subprocess
import sys
from typing import get_args

import numpy as np
import pytest

from engine.checkpoint.checkpoint import open_checkpoint
from engine.checkpoint.spec import Architecture
from engine.kernels.port import AttentionShape
from engine.layers.rope import inverse_frequencies
from engine.models.assembly import Assembly
from engine.models.registry import MODELS, build_of
from engine.weights.load import Weights
from tests.fakes.numpy_kernels import NumpyKernels
from tests.oracles.decoder_reference import reference_logits
from tests.oracles.paged_steps import PagedSequences
from tests.oracles.safetensors_writer import write_hf
from tests.unit.models.tiny import TOKENS, model_of


def test_every_architecture_that_a_checkpoint_may_have_is_built():
    assert set(MODELS) == set(get_args(Architecture))
    assert all(callable(build_of(architecture)) for architecture in MODELS)


def test_importing_the_registry_imports_no_model():
    code = (
        "import engine.models.registry, sys;print([name for name in sys.modules if name.startswith('engine.models.')])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "registry" in printed
    assert not any(f"engine.models.{name}" in printed for name in MODELS)


@pytest.mark.parametrize("name", ["llama-biases", "qwen2", "qwen3"])
def test_a_model_runs_on_a_back_end_without_torch(name, tmp_path):
    config, tensors = model_of(name)
    with open_checkpoint(write_hf(tmp_path, config, tensors)) as checkpoint:
        spec = checkpoint.spec
        shape = AttentionShape(spec.num_heads, spec.num_kv_heads, spec.head_dim, inverse_frequencies(spec))
        kernels = NumpyKernels(shape, spec.num_layers, block_size=8)
        assembly = Assembly(spec, Weights(spec, checkpoint.tensors, kernels), kernels)
        model = build_of(spec.architecture)(assembly)
    paged = PagedSequences(1, block_size=8)
    found = [
        np.asarray(model.forward(paged.step([(0, tokens)], all_logits=True))) for tokens in (TOKENS[:20], TOKENS[20:])
    ]
    np.testing.assert_allclose(np.concatenate(found), reference_logits(config, tensors, TOKENS), rtol=1e-5, atol=1e-6)
