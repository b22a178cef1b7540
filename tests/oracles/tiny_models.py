"""Tiny random models of every architecture, as a Hugging Face config with tensors, and the same as GGUF.

The naming and the order of rows in a GGUF file are written down here a second time, apart from the reader's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.oracles.gguf_writer import Typed, write_gguf

Config = dict[str, object]
Tensors = dict[str, np.ndarray]

GGUF_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}


def tiny_model(
    architecture: str = "llama", *, seed: int = 0, scale: float = 0.05, **changes: object
) -> tuple[Config, Tensors]:
    """A config.json and its tensors (float32, Hugging Face names). `changes` replaces any key of the config.

    Sizes are multiples of 32, so that every tensor can be quantised along its rows.
    """
    config: Config = {
        "model_type": architecture,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 96,
        "vocab_size": 96,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float32",
    } | changes
    random = np.random.default_rng(seed)
    return config, {
        name: (random.standard_normal(shape) * scale + (1.0 if "norm" in name else 0.0)).astype(np.float32)
        for name, shape in shapes_of(config).items()
    }


def shapes_of(config: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    hidden, inner, vocab = size(config, "hidden_size"), size(config, "intermediate_size"), size(config, "vocab_size")
    query = size(config, "num_attention_heads") * size(config, "head_dim")
    kv = size(config, "num_key_value_heads") * size(config, "head_dim")
    architecture, has_bias = config["model_type"], config.get("attention_bias", False)

    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden)}
    for index in range(size(config, "num_hidden_layers")):
        layer = f"model.layers.{index}."
        shapes[layer + "input_layernorm.weight"] = (hidden,)
        for part, rows in (("q", query), ("k", kv), ("v", kv)):
            shapes[f"{layer}self_attn.{part}_proj.weight"] = (rows, hidden)
            if architecture == "qwen2" or has_bias:
                shapes[f"{layer}self_attn.{part}_proj.bias"] = (rows,)
        shapes[layer + "self_attn.o_proj.weight"] = (hidden, query)
        if has_bias:
            shapes[layer + "self_attn.o_proj.bias"] = (hidden,)
        if architecture == "qwen3":
            shapes[layer + "self_attn.q_norm.weight"] = (size(config, "head_dim"),)
            shapes[layer + "self_attn.k_norm.weight"] = (size(config, "head_dim"),)
        shapes[layer + "post_attention_layernorm.weight"] = (hidden,)
        for part, shape in (("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner))):
            shapes[f"{layer}mlp.{part}_proj.weight"] = shape
            if config.get("mlp_bias", False):
                shapes[f"{layer}mlp.{part}_proj.bias"] = shape[:1]
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocab, hidden)
    return shapes


def write_tiny_gguf(
    path: Path,
    config: Mapping[str, object],
    tensors: Mapping[str, np.ndarray],
    encodings: Mapping[str, str] | str = "F32",
    tokenizer: Mapping[str, object] | None = None,
    **metadata: object,
) -> Path:
    """The same model as a GGUF file; returns `path`.

    `encodings` goes by Hugging Face names (or one for all matrices). `tokenizer` adds `tokenizer.*` keys. llama's
    query and key rows are interleaved per head, as GGUF has them.
    """
    if not isinstance(encodings, str):
        encodings = {gguf_name(name): encoding for name, encoding in encodings.items()}
    stored = {gguf_name(name): interleaved(name, tensor, config) for name, tensor in tensors.items()}
    return write_gguf(path, gguf_metadata(config) | dict(tokenizer or {}) | metadata, stored, encodings)


def gguf_metadata(config: Mapping[str, object]) -> dict[str, object]:
    own = {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "rope.freq_base": config["rope_theta"],
        "vocab_size": config["vocab_size"],
    }
    metadata: dict[str, object] = {"general.architecture": config["model_type"]}
    metadata |= {f"{config['model_type']}.{key}": value for key, value in own.items()}
    for key in ("bos_token_id", "eos_token_id"):
        if config.get(key) is not None:
            metadata[f"tokenizer.ggml.{key}"] = config[key]
    return metadata


def vocabulary(tokens: list[str], merges: list[str], *, pre: str = "smollm") -> dict[str, object]:
    """The `tokenizer.ggml.*` keys of a byte-level BPE tokenizer; every token is a normal one."""
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * len(tokens),
        "tokenizer.ggml.merges": Typed(8, merges),
    }


def gguf_name(name: str) -> str:
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        index, part = stem.removeprefix("model.layers.").split(".", 1)
        return f"blk.{index}.{GGUF_PARTS[part]}.{kind}"
    return f"{GGUF_PARTS[stem]}.{kind}"


def interleaved(name: str, tensor: np.ndarray, config: Mapping[str, object]) -> np.ndarray:
    """Row 2j + k of a head in the file is row k * half + j of the head in the model."""
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(name.split(".")[-2])
    if config["model_type"] != "llama" or heads is None:
        return tensor
    out = np.empty_like(tensor)
    head_dim = size(config, "head_dim")
    for head in range(size(config, heads)):
        for row in range(head_dim):
            k, j = divmod(row, head_dim // 2)
            out[head * head_dim + 2 * j + k] = tensor[head * head_dim + row]
    return out


def size(config: Mapping[str, object], key: str) -> int:
    found = config[key]
    assert isinstance(found, int)
    return found
