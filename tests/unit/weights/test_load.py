from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from engine.checkpoint.checkpoint import Checkpoint, open_checkpoint
from engine.checkpoint.dequantize import dequantize
from engine.kernels.port import AttentionShape
from engine.weights.load import Weights
from engine.weights.table import EncodedTable
from tests.fakes.numpy_kernels import NumpyKernels, array
from tests.oracles.quantize import ENCODERS
from tests.oracles.safetensors_writer import write_hf
from tests.oracles.tiny_models import tiny_model, write_tiny_gguf

ATTENTION = "model.layers.1.self_attn"
NEIGHBOURS = np.array([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])


class InNeighbours(NumpyKernels):
    """Wants the halves of a head as neighbours."""

    rotary_order = NEIGHBOURS


def weights_of(checkpoint: Checkpoint, kernels: type[NumpyKernels] = NumpyKernels) -> Weights:
    return Weights(checkpoint.spec, checkpoint.tensors, kernels(AttentionShape(4, 2, 16, ()), 2, 16))


def rows_of(projection, inputs: int) -> np.ndarray:
    """The packed weight [outputs, inputs], read off by multiplying."""
    return np.asarray(projection(array(np.eye(inputs))) - projection(array(np.zeros((1, inputs))))).T


@pytest.fixture
def qwen2(tmp_path: Path):
    config, tensors = tiny_model("qwen2")
    with open_checkpoint(write_hf(tmp_path, config, tensors)) as checkpoint:
        yield checkpoint, tensors


def test_fused_projections_stand_below_each_other_with_their_biases(qwen2):
    checkpoint, tensors = qwen2
    names = [f"{ATTENTION}.{part}_proj" for part in "qkv"]
    projection = weights_of(checkpoint).projection(*names)
    np.testing.assert_allclose(rows_of(projection, 64), np.concatenate([tensors[f"{name}.weight"] for name in names]))
    bias = np.asarray(projection(array(np.zeros((1, 64)))))[0]
    np.testing.assert_array_equal(bias, np.concatenate([tensors[f"{name}.bias"] for name in names]))


def test_query_and_key_rows_stand_in_the_order_that_the_rotation_wants(qwen2):
    checkpoint, tensors = qwen2
    weights = weights_of(checkpoint, InNeighbours)
    for part, heads in (("q", 4), ("k", 2), ("v", None)):
        expected, bias = (tensors[f"{ATTENTION}.{part}_proj.{kind}"] for kind in ("weight", "bias"))
        if heads:
            expected = expected.reshape(heads, 16, 64)[:, NEIGHBOURS].reshape(-1, 64)
            bias = bias.reshape(heads, 16)[:, NEIGHBOURS].reshape(-1)
        projection = weights.projection(f"{ATTENTION}.{part}_proj")
        np.testing.assert_allclose(rows_of(projection, 64), expected)
        np.testing.assert_array_equal(np.asarray(projection(array(np.zeros((1, 64)))))[0], bias)


def test_a_head_vector_stands_in_that_order_too_and_other_vectors_do_not(tmp_path):
    config, tensors = tiny_model("qwen3")
    with open_checkpoint(write_hf(tmp_path, config, tensors)) as checkpoint:
        weights = weights_of(checkpoint, InNeighbours)
        found = weights.head_vector(f"{ATTENTION}.q_norm"), weights.vector("model.norm")
    np.testing.assert_array_equal(np.asarray(found[0]), tensors[f"{ATTENTION}.q_norm.weight"][NEIGHBOURS])
    np.testing.assert_array_equal(np.asarray(found[1]), tensors["model.norm.weight"])


def test_projections_without_a_bias_have_none(tmp_path):
    with open_checkpoint(write_hf(tmp_path, *tiny_model("llama"))) as checkpoint:
        assert weights_of(checkpoint).bias((f"{ATTENTION}.q_proj",)) is None


def test_the_rows_of_a_llama_gguf_are_those_of_the_hugging_face_model(tmp_path):
    config, tensors = tiny_model("llama")
    with open_checkpoint(write_tiny_gguf(tmp_path / "tiny.gguf", config, tensors)) as checkpoint:
        projection = weights_of(checkpoint).projection(f"{ATTENTION}.k_proj")
    np.testing.assert_allclose(rows_of(projection, 64), tensors[f"{ATTENTION}.k_proj.weight"])


def test_threads_do_not_share_the_scratch(qwen2):
    checkpoint, tensors = qwen2
    weights = weights_of(checkpoint)
    names = [f"model.layers.{layer}.mlp.{part}_proj" for layer in (0, 1) for part in ("gate", "up")] * 8
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda name: rows_of(weights.projection(name), 64), names))
    for name, rows in zip(names, found, strict=True):
        np.testing.assert_allclose(rows, tensors[f"{name}.weight"])


@pytest.mark.parametrize("encoding", ENCODERS)
def test_an_encoded_table_reads_the_rows_of_the_decoded_one(encoding, tmp_path):
    config, tensors = tiny_model("llama")
    path = write_tiny_gguf(tmp_path / "tiny.gguf", config, tensors, {"model.embed_tokens.weight": encoding})
    with open_checkpoint(path) as checkpoint:
        view = checkpoint.tensors["model.embed_tokens.weight"]
        whole, table = dequantize(view), EncodedTable(view)
    rows = np.array([5, 0, 95, 5], np.int32)
    np.testing.assert_array_equal(table.read(rows), whole[rows])
    assert table.num_rows == 96


def test_an_encoded_table_outlives_its_file(tmp_path):
    config, tensors = tiny_model("llama")
    path = write_tiny_gguf(tmp_path / "tiny.gguf", config, tensors)
    with open_checkpoint(path) as checkpoint:
        table = EncodedTable(checkpoint.tensors["model.embed_tokens.weight"])
    path.write_bytes(b"")
    np.testing.assert_array_equal(table.read(np.array([7], np.int32))[0], tensors["model.embed_tokens.weight"][7])
