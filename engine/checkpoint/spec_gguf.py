"""ModelSpec from a GGUF file's metadata and tensor table.

Keys are those of docs/gguf.md; what would change the arithmetic and is not supported is refused with a sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from engine.checkpoint.encodings import Encoding
from engine.checkpoint.fields import Fields, shortest
from engine.checkpoint.gguf import GgufTensor
from engine.checkpoint.rope import FactorRope, LinearRope, RopeScaling, rope_scaling_of
from engine.checkpoint.spec import ModelSpec, architecture_of, check_spec, head_dim_of, no_repeats

PLAIN_NAMES = {Encoding.F32: "float32", Encoding.F16: "float16", Encoding.BF16: "bfloat16"}
ROPE_FACTORS = "rope_freqs.weight"

# Keys (behind the architecture's name) that change the arithmetic, with the values that change nothing.
NEUTRAL: dict[str, tuple[int | bool, ...]] = {
    "expert_count": (0,),
    "attention.sliding_window": (0,),
    "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,),
    "attn_logit_softcapping": (0,),
    "final_logit_softcapping": (0,),
    "attention.scale": (0,),
    "logit_scale": (0, 1),
    "residual_scale": (0, 1),
    "embedding_scale": (0, 1),
    "attention.causal": (True,),
    "use_parallel_residual": (False,),
    "rope.scaling.attn_factor": (0, 1),
}


def spec_from_gguf(
    metadata: Mapping[str, object], tensors: Mapping[str, GgufTensor], source: str = "the GGUF file"
) -> ModelSpec:
    """Raises ModelFileError for an architecture or a key that is not supported, or a missing key."""
    fields = Fields(source, metadata)
    architecture = architecture_of(fields.text("general.architecture"), fields)
    own = Fields(f"{source}: {architecture}", section_of(metadata, architecture))
    refuse_unsupported(fields, own)

    hidden_size, num_heads = own.count("embedding_length"), same_in_all_layers(own, "attention.head_count")
    head_dim = head_dim_in(own, hidden_size, num_heads)
    theta = shortest(own.positive_or("rope.freq_base", 10_000.0))
    spec = ModelSpec(
        architecture=architecture,
        num_layers=own.count("block_count"),
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=same_in_all_layers(own, "attention.head_count_kv", num_heads),
        head_dim=head_dim,
        intermediate_size=same_in_all_layers(own, "feed_forward_length"),
        vocab_size=vocab_size_of(own, tensors),
        max_position=own.count("context_length"),
        rms_norm_eps=shortest(own.positive("attention.layer_norm_rms_epsilon")),
        rope_theta=theta,
        rope_scaling=rope_scaling_in(own, tensors, head_dim),
        qkv_bias="blk.0.attn_q.bias" in tensors,
        output_bias="blk.0.attn_output.bias" in tensors,
        mlp_bias="blk.0.ffn_down.bias" in tensors,
        qk_norm=architecture == "qwen3",
        tie_word_embeddings="output.weight" not in tensors,
        bos_token_id=fields.whole_or("tokenizer.ggml.bos_token_id", None),
        eos_token_ids=no_repeats(
            fields.token_ids("tokenizer.ggml.eos_token_id")
            + fields.token_ids("tokenizer.ggml.eot_token_id")
            + fields.token_ids("tokenizer.ggml.eom_token_id")
        ),
        dtype=dtype_of(tensors),
    )
    return check_spec(spec, fields)


def section_of(metadata: Mapping[str, object], architecture: str) -> dict[str, object]:
    prefix = architecture + "."
    return {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}


def refuse_unsupported(fields: Fields, own: Fields) -> None:
    if fields.table.get("split.count", 1) not in (0, 1):
        raise fields.fault("a model split over several GGUF files is not supported; merge them into one")
    for key, neutral in NEUTRAL.items():
        found = own.table.get(key, neutral[0])
        if not isinstance(found, int | float) or found not in neutral:
            raise own.fault(f"{key} is {found!r}, which is not supported")


def same_in_all_layers(own: Fields, key: str, default: int | None = None) -> int:
    """Some writers give these counts per layer; models whose layers differ are not supported."""
    found = own.table.get(key)
    if isinstance(found, np.ndarray):
        if found.dtype.kind not in "iu" or found.size == 0 or (found != found[0]).any() or found[0] < 1:
            raise own.fault(f"{key} is not the same positive integer for every layer")
        return int(found[0])
    if found is None and default is not None:
        return default
    return own.count(key)


def head_dim_in(own: Fields, hidden_size: int, num_heads: int) -> int:
    """The rotated, the key and the value part of a head must be one size."""
    keys = ("attention.key_length", "attention.value_length", "rope.dimension_count")
    key_length = own.count_or(keys[0], None) or head_dim_of(hidden_size, num_heads, own)
    for key in keys[1:]:
        if own.count_or(key, key_length) != key_length:
            raise own.fault(f"{key} is {own.count(key)} where heads have {key_length}; that is not supported")
    return key_length


def vocab_size_of(own: Fields, tensors: Mapping[str, GgufTensor]) -> int:
    """The rows of the embedding; the metadata may repeat it and must agree."""
    embedding = tensors.get("token_embd.weight")
    if embedding is None:
        raise own.fault("tensor 'token_embd.weight' is missing")
    rows = embedding.shape[0]
    if own.count_or("vocab_size", rows) != rows:
        raise own.fault(f"vocab_size is {own.count('vocab_size')}, and token_embd.weight has {rows} rows")
    return rows


def rope_scaling_in(own: Fields, tensors: Mapping[str, GgufTensor], head_dim: int) -> RopeScaling | None:
    kind = own.text_or("rope.scaling.type", "none")
    old_factor = own.positive_or("rope.scale_linear", 1.0)
    scaling = rope_scaling_of(kind, own, "rope.scaling.factor", own.count("context_length"))
    if kind == "none" and old_factor != 1.0:
        scaling = LinearRope(old_factor)

    factors = tensors.get(ROPE_FACTORS)
    if factors is None:
        return scaling
    if scaling is not None:
        raise own.fault(f"both rope.scaling and {ROPE_FACTORS} are given")
    half = head_dim // 2
    if factors.encoding is not Encoding.F32 or factors.shape != (half,):
        raise own.fault(f"{ROPE_FACTORS} is {factors.encoding} of shape {list(factors.shape)}, not F32 [{half}]")
    divisors = np.frombuffer(factors.data, "<f4")
    if not (np.isfinite(divisors).all() and (divisors > 0).all()):
        raise own.fault(f"{ROPE_FACTORS} holds a number that is not positive and finite")
    return FactorRope(tuple(divisors.tolist())) if (divisors != 1).any() else None


def dtype_of(tensors: Mapping[str, GgufTensor]) -> str:
    """The format that most bytes have."""
    sizes: Counter[Encoding] = Counter()
    for tensor in tensors.values():
        sizes[tensor.encoding] += len(tensor.data)
    encoding = sizes.most_common(1)[0][0]
    return PLAIN_NAMES.get(encoding, encoding.value.lower())
