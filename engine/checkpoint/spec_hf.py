"""ModelSpec from a Hugging Face config.json, with transformers' meaning of absent keys (4.x and 5.x spelling).

What would change the arithmetic and is not supported is refused with a sentence, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.checkpoint.fields import Fields
from engine.checkpoint.rope import RopeScaling, rope_scaling_of
from engine.checkpoint.spec import Architecture, ModelSpec, architecture_of, check_spec, head_dim_of, no_repeats

DEFAULT_THETA = 10_000.0
QWEN3_HEAD_DIM = 128  # Qwen3Config's own default; llama and qwen2 derive it
DTYPES = ("float32", "float16", "bfloat16")


def spec_from_hf_config(
    config: Mapping[str, object],
    generation: Mapping[str, object] | None = None,
    source: str = "config.json",
) -> ModelSpec:
    """`generation` is generation_config.json, whose eos ids come before config.json's. Raises ModelFileError."""
    fields = Fields(source, config)
    architecture = architecture_of(fields.text("model_type"), fields)
    refuse_unsupported(fields)

    hidden_size, num_heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    max_position = fields.count("max_position_embeddings")
    theta, scaling = rope_of(fields, max_position)
    generated = Fields("generation_config.json", generation or {})
    bias = bool(fields.flag_or("attention_bias", False))
    spec = ModelSpec(
        architecture=architecture,
        num_layers=fields.count("num_hidden_layers"),
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads_of(fields, architecture, num_heads),
        head_dim=head_dim_in(fields, architecture, hidden_size, num_heads),
        intermediate_size=fields.count("intermediate_size"),
        vocab_size=fields.count("vocab_size"),
        max_position=max_position,
        rms_norm_eps=fields.positive_or("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=scaling,
        # qwen2 always has the three biases and never the fourth; llama and qwen3 have all four or none.
        qkv_bias=architecture == "qwen2" or bias,
        output_bias=architecture != "qwen2" and bias,
        mlp_bias=architecture == "llama" and bool(fields.flag_or("mlp_bias", False)),
        qk_norm=architecture == "qwen3",
        tie_word_embeddings=bool(fields.flag_or("tie_word_embeddings", False)),
        bos_token_id=generated.whole_or("bos_token_id", fields.whole_or("bos_token_id", None)),
        eos_token_ids=no_repeats(generated.token_ids("eos_token_id") + fields.token_ids("eos_token_id")),
        dtype=dtype_of(fields),
    )
    return check_spec(spec, fields)


def refuse_unsupported(fields: Fields) -> None:
    activation = fields.text_or("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise fields.fault(f"hidden_act {activation!r} is not supported, only silu")
    if fields.has("quantization_config"):
        method = (fields.section("quantization_config") or fields).text_or("quant_method", "unnamed")
        raise fields.fault(f"weights quantised with {method!r} are not supported; use a GGUF file or plain weights")
    if fields.number_or("partial_rotary_factor", 1.0) != 1.0:
        raise fields.fault("partial_rotary_factor other than 1 is not supported")
    refuse_sliding_window(fields)


def refuse_sliding_window(fields: Fields) -> None:
    """qwen2 and qwen3 slide from layer max_window_layers (28 where absent) on, if use_sliding_window is set."""
    layers = fields.table.get("layer_types")
    if layers is not None:
        if not isinstance(layers, list) or any(kind != "full_attention" for kind in layers):
            raise fields.fault("layer_types has other kinds than full_attention, which are not supported")
        return
    if not fields.flag_or("use_sliding_window", False) or not fields.has("sliding_window"):
        return
    if fields.count_or("max_window_layers", 28) < fields.count("num_hidden_layers"):
        raise fields.fault("use_sliding_window is true; sliding window attention is not supported")


def num_kv_heads_of(fields: Fields, architecture: Architecture, num_heads: int) -> int:
    """Absent in llama means as many as query heads; in qwen it means 32, which nobody relies on: refused."""
    if "num_key_value_heads" not in fields.table and architecture != "llama":
        raise fields.fault("num_key_value_heads is missing")
    return fields.count_or("num_key_value_heads", num_heads)


def head_dim_in(fields: Fields, architecture: Architecture, hidden_size: int, num_heads: int) -> int:
    if fields.has("head_dim"):
        return fields.count("head_dim")
    if architecture == "qwen3" and "head_dim" not in fields.table:
        return QWEN3_HEAD_DIM
    return head_dim_of(hidden_size, num_heads, fields)


def rope_of(fields: Fields, max_position: int) -> tuple[float, RopeScaling | None]:
    """Base and scaling from rope_parameters (5.x) or rope_theta and rope_scaling (4.x), whichever is there."""
    outer = fields.positive_or("rope_theta", None)
    old, new = fields.section("rope_scaling"), fields.section("rope_parameters")
    if old and new and old.table != new.table:
        raise fields.fault("rope_scaling and rope_parameters are both given and differ")
    section = new or old
    if section is None:
        return outer or DEFAULT_THETA, None

    if any(isinstance(value, dict) for value in section.table.values()):
        raise section.fault("rope parameters that differ between layer types are not supported")
    if section.number_or("partial_rotary_factor", 1.0) != 1.0:
        raise section.fault("partial_rotary_factor other than 1 is not supported")
    inner = section.positive_or("rope_theta", None)
    if inner and outer and inner != outer:
        raise fields.fault(f"rope_theta is given twice, as {outer} and as {inner}")
    kind = section.text_or("rope_type", section.text_or("type", "default"))
    return inner or outer or DEFAULT_THETA, rope_scaling_of(kind, section, "factor", max_position)


def dtype_of(fields: Fields) -> str:
    """`dtype` in 5.x, `torch_dtype` in 4.x; absent or "auto" means float32, transformers' default."""
    name = fields.text_or("dtype", fields.text_or("torch_dtype", "auto")).removeprefix("torch.")
    if name == "auto":
        return "float32"
    if name not in DTYPES:
        raise fields.fault(f"weights of type {name!r} are not supported, only {', '.join(DTYPES)}")
    return name
