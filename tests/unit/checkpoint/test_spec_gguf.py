from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import ModelFileError
from engine.checkpoint.gguf import read_gguf
from engine.checkpoint.rope import LinearRope
from engine.checkpoint.spec import ModelSpec
from engine.checkpoint.spec_gguf import spec_from_gguf
from tests.oracles.tiny_models import tiny_model, write_tiny_gguf


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.gguf"


def spec(path: Path, architecture: str = "llama", encodings: str = "F32", **metadata: object) -> ModelSpec:
    """The spec of a tiny file with `metadata` changed: `_` in a name stands for the architecture's prefix."""
    changes = {key.replace("__", "."): value for key, value in metadata.items()}
    changes = {f"{architecture}.{key[1:]}" if key[0] == "." else key: value for key, value in changes.items()}
    file = read_gguf(write_tiny_gguf(path, *tiny_model(architecture), encodings, **changes))
    return spec_from_gguf(file.metadata, file.tensors, str(path))


def refusal(path: Path, architecture: str = "llama", **metadata: object) -> str:
    with pytest.raises(ModelFileError) as caught:
        spec(path, architecture, **metadata)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_numbers_written_as_float32_come_back_as_they_were_meant(path):
    assert spec(path).rms_norm_eps == 1e-5


def test_metadata_becomes_the_spec(path):
    assert spec(path, "qwen3") == ModelSpec(
        architecture="qwen3",
        num_layers=2,
        hidden_size=64,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        intermediate_size=96,
        vocab_size=96,
        max_position=256,
        rms_norm_eps=1e-5,
        rope_theta=10_000.0,
        qk_norm=True,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_ids=(2,),
    )


@pytest.mark.parametrize("encoding, dtype", [("F16", "float16"), ("BF16", "bfloat16"), ("Q4_1", "q4_1")])
def test_type_is_the_one_of_most_bytes(path, encoding, dtype):
    assert spec(path, encodings=encoding).dtype == dtype


def test_end_of_turn_and_of_message_end_a_text_too(path):
    found = spec(path, tokenizer__ggml__eot_token_id=5, tokenizer__ggml__eom_token_id=2)
    assert found.eos_token_ids == (2, 5)


def test_counts_given_for_each_layer_must_be_one(path):
    assert spec(path, __attention__head_count_kv=[2, 2]).num_kv_heads == 2
    assert "every layer" in refusal(path, __attention__head_count_kv=[2, 1])
    assert "every layer" in refusal(path, __feed_forward_length=[0, 0])


@pytest.mark.parametrize("key", ["__rope__dimension_count", "__attention__value_length"])
def test_parts_of_a_head_that_differ_in_size_are_refused(path, key):
    assert "where heads have 16" in refusal(path, **{key: 8})


def test_linear_rope_scaling_is_read_in_both_spellings(path):
    assert spec(path, __rope__scaling__type="linear", __rope__scaling__factor=2.0).rope_scaling == LinearRope(2.0)
    assert spec(path, __rope__scale_linear=4.0).rope_scaling == LinearRope(4.0)
    assert spec(path, __rope__scaling__type="none").rope_scaling is None


@pytest.mark.parametrize("kind", ["yarn", "longrope"])
def test_other_rope_scaling_is_refused_by_name(path, kind):
    assert repr(kind) in refusal(path, __rope__scaling__type=kind, __rope__scaling__factor=2.0)


@pytest.mark.parametrize(
    "key, value",
    [
        ("__expert_count", 8),
        ("__attention__sliding_window", 4096),
        ("__attention__sliding_window", [0, 4096]),
        ("__attention__clamp_kqv", 8.0),
        ("__final_logit_softcapping", 30.0),
        ("__logit_scale", 0.5),
        ("__attention__causal", False),
        ("__rope__scaling__attn_factor", 1.5),
        ("__attention__scale", 0.25),
        ("split__count", 2),
    ],
)
def test_key_that_changes_the_arithmetic_is_refused(path, key, value):
    assert "not supported" in refusal(path, **{key: value})


@pytest.mark.parametrize(
    "key, value",
    [("__expert_count", 0), ("__attention__sliding_window", 0), ("__logit_scale", 1.0), ("split__count", 1)],
)
def test_key_that_changes_nothing_is_accepted(path, key, value):
    assert spec(path, **{key: value}) == spec(path)


def test_other_architecture_is_refused(path):
    assert "'gemma3'" in refusal(path, general__architecture="gemma3")


def test_vocabulary_size_that_is_not_the_embeddings_is_refused(path):
    assert "96 rows" in refusal(path, __vocab_size=97)


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, np.array([1, 2], np.int32)])
def test_size_that_is_no_positive_integer_is_refused(path, value):
    assert "block_count" in refusal(path, __block_count=value)


def test_llama_has_biases_where_the_file_has_them(path):
    config, tensors = tiny_model("llama", attention_bias=True)
    file = read_gguf(write_tiny_gguf(path, config, tensors))
    found = spec_from_gguf(file.metadata, file.tensors)
    assert (found.qkv_bias, found.output_bias, found.mlp_bias) == (True, True, False)
