from __future__ import annotations

import pytest

from engine.base.errors import ModelFileError
from engine.checkpoint.rope import LinearRope, Llama3Rope
from engine.checkpoint.spec import ModelSpec
from engine.checkpoint.spec_hf import spec_from_hf_config

REQUIRED = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 100,
    "max_position_embeddings": 256,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def spec(**changes: object) -> ModelSpec:
    """The spec of REQUIRED with `changes`; a value of `...` takes the key away."""
    table = {key: value for key, value in (REQUIRED | changes).items() if value is not ...}
    return spec_from_hf_config(table)


def refusal(**changes: object) -> str:
    with pytest.raises(ModelFileError) as caught:
        spec(**changes)
    return str(caught.value)


def test_absent_keys_of_llama_have_the_meaning_transformers_gives_them():
    assert spec() == ModelSpec(
        architecture="llama",
        num_layers=2,
        hidden_size=64,
        num_heads=4,
        num_kv_heads=4,
        head_dim=16,
        intermediate_size=96,
        vocab_size=100,
        max_position=256,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        dtype="float32",
    )


@pytest.mark.parametrize("key", REQUIRED)
def test_missing_key_is_named(key):
    assert f"{key} is missing" in refusal(**{key: ...})


@pytest.mark.parametrize("key", [key for key in REQUIRED if key != "model_type"])
@pytest.mark.parametrize("value", [0, -1, 2.0, "64", True, [64]])
def test_size_that_is_no_positive_integer_is_refused(key, value):
    assert f"{key} is" in refusal(**{key: value})


def test_qwen2_has_three_biases_and_no_fourth():
    found = spec(model_type="qwen2", num_key_value_heads=2)
    assert (found.qkv_bias, found.output_bias, found.qk_norm) == (True, False, False)


def test_qwen3_has_head_size_128_and_normalised_heads():
    found = spec(model_type="qwen3", num_key_value_heads=2)
    assert (found.head_dim, found.qk_norm, found.qkv_bias) == (128, True, False)


def test_llama_with_attention_bias_has_all_four():
    found = spec(attention_bias=True, mlp_bias=True)
    assert (found.qkv_bias, found.output_bias, found.mlp_bias) == (True, True, True)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_qwen_without_key_heads_is_refused_and_null_means_query_heads(architecture):
    assert "num_key_value_heads is missing" in refusal(model_type=architecture)
    assert spec(model_type=architecture, num_key_value_heads=None).num_kv_heads == 4


def test_null_counts_as_absent():
    assert spec(head_dim=None, rope_scaling=None, eos_token_id=None).head_dim == 16


# -- rotary positions, in the spelling of transformers 4 and 5 -----------------------------------------------


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"rope_theta": 5e5, "rope_scaling": LLAMA3}, id="4.x"),
        pytest.param({"rope_parameters": LLAMA3 | {"rope_theta": 5e5}}, id="5.x"),
        pytest.param({"rope_theta": 5e5, "rope_parameters": LLAMA3}, id="5.x-theta-outside"),
        pytest.param({"rope_theta": 5e5, "rope_parameters": LLAMA3 | {"rope_theta": 5e5}}, id="theta-twice"),
    ],
)
def test_llama_3_scaling_is_read_in_every_spelling(keys):
    found = spec(**keys)
    assert (found.rope_theta, found.rope_scaling) == (5e5, Llama3Rope(8.0, 1.0, 4.0, 64))


@pytest.mark.parametrize("key", ["rope_type", "type"])
def test_linear_scaling_is_read(key):
    assert spec(rope_scaling={key: "linear", "factor": 4}).rope_scaling == LinearRope(4.0)


def test_default_rope_type_is_no_scaling():
    found = spec(rope_parameters={"rope_type": "default", "rope_theta": 1e6})
    assert (found.rope_theta, found.rope_scaling) == (1e6, None)


def test_llama_3_without_original_context_takes_the_whole():
    scaling = {key: value for key, value in LLAMA3.items() if key != "original_max_position_embeddings"}
    assert spec(rope_scaling=scaling).rope_scaling == Llama3Rope(8.0, 1.0, 4.0, 256)


@pytest.mark.parametrize("kind", ["yarn", "dynamic", "longrope", "su", "mrope"])
def test_other_scaling_is_refused_by_name(kind):
    assert repr(kind) in refusal(rope_scaling={"rope_type": kind, "factor": 2.0})


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 1e6}}, id="two-bases"),
        pytest.param({"rope_scaling": LLAMA3, "rope_parameters": LLAMA3 | {"factor": 2.0}}, id="two-scalings"),
        pytest.param({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}, id="by-layer-type"),
        pytest.param({"rope_scaling": LLAMA3 | {"low_freq_factor": 4.0}}, id="low-not-below-high"),
        pytest.param({"rope_scaling": {"rope_type": "linear"}}, id="linear-without-factor"),
        pytest.param({"rope_scaling": {"rope_type": "linear", "factor": 0}}, id="factor-0"),
        pytest.param({"rope_scaling": "linear"}, id="not-an-object"),
        pytest.param({"rope_theta": 0}, id="base-0"),
        pytest.param({"rope_theta": float("nan")}, id="base-nan"),
        pytest.param({"rope_parameters": {"partial_rotary_factor": 0.5}}, id="partial-inside"),
        pytest.param({"partial_rotary_factor": 0.5}, id="partial-outside"),
    ],
)
def test_ambiguous_or_unsound_rope_is_refused(keys):
    assert "config.json" in refusal(**keys)


# -- what would change the arithmetic is refused -------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["mistral", "gemma2", "LlamaForCausalLM", "qwen3_moe", ""])
def test_unknown_architecture_is_refused_with_the_known_ones(architecture):
    assert repr(architecture) in (said := refusal(model_type=architecture)) and "llama, qwen2, qwen3" in said


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 1}, id="from-layer-1"),
        pytest.param(
            {"use_sliding_window": True, "sliding_window": 64, "num_hidden_layers": 29}, id="default-layer-28"
        ),
        pytest.param({"layer_types": ["full_attention", "sliding_attention"]}, id="by-layer"),
        pytest.param({"layer_types": "full_attention"}, id="layer-types-no-list"),
    ],
)
def test_active_sliding_window_is_refused(keys):
    assert refusal(model_type="qwen2", num_key_value_heads=2, **keys)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"use_sliding_window": False, "sliding_window": 64, "max_window_layers": 0}, id="off"),
        pytest.param({"use_sliding_window": True, "sliding_window": None, "max_window_layers": 0}, id="no-window"),
        pytest.param({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2}, id="no-layer"),
        pytest.param({"use_sliding_window": True, "sliding_window": 64}, id="absent-means-layer-28"),
        pytest.param({"layer_types": ["full_attention"] * 2}, id="all-layers-full"),
    ],
)
def test_inactive_sliding_window_is_accepted(keys):
    assert spec(model_type="qwen2", num_key_value_heads=2, **keys).num_layers == 2


@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_pytorch_tanh"])
def test_other_activation_is_refused(activation):
    assert activation in refusal(hidden_act=activation)


def test_quantised_checkpoint_is_refused_by_method():
    assert "'gptq'" in refusal(quantization_config={"quant_method": "gptq"})


def test_head_counts_that_do_not_divide_are_refused():
    assert "not a multiple" in refusal(num_attention_heads=5)
    assert "not a multiple" in refusal(num_key_value_heads=3)


def test_odd_head_size_is_refused():
    assert "even" in refusal(head_dim=15)


# -- ids and type --------------------------------------------------------------------------------------------


def test_eos_ids_of_generation_config_come_first_without_repeats():
    found = spec_from_hf_config(REQUIRED | {"eos_token_id": [2, 3]}, {"eos_token_id": [5, 3], "bos_token_id": 1})
    assert (found.eos_token_ids, found.bos_token_id) == ((5, 3, 2), 1)


@pytest.mark.parametrize("value", [-1, 1.5, "2", True, [2, None], {"id": 2}])
def test_eos_that_is_no_id_is_refused(value):
    assert "eos_token_id" in refusal(eos_token_id=value)


@pytest.mark.parametrize("key", ["eos_token_id", "bos_token_id"])
def test_id_outside_the_vocabulary_is_refused(key):
    assert "outside the vocabulary" in refusal(**{key: 100})


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
@pytest.mark.parametrize(
    "written, meant", [("bfloat16", "bfloat16"), ("torch.float16", "float16"), ("auto", "float32")]
)
def test_type_of_the_weights_is_read_in_both_spellings(key, written, meant):
    assert spec(**{key: written}).dtype == meant


def test_type_that_is_not_a_float_format_is_refused():
    assert "'float8_e4m3fn'" in refusal(torch_dtype="float8_e4m3fn")
