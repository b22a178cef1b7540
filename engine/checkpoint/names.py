"""The tensors that a model of a given spec has, under Hugging Face names, and the GGUF names for them.

Owns the one table of names and shapes. Knows no file.
"""

from __future__ import annotations

import re

from engine.checkpoint.spec import ModelSpec

Shape = tuple[int, ...]

TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
GGUF_LAYER = re.compile(r"blk\.(0|[1-9]\d{0,8})\.(\w+)\.(weight|bias)")
GGUF_TOP = re.compile(r"(\w+)\.(weight|bias)")
OLD_ROPE_BUFFER = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq")


def expected_tensors(spec: ModelSpec) -> dict[str, Shape]:
    """Name and shape (outermost first) of every tensor, in the order of the forward pass."""
    expected: dict[str, Shape] = {"model.embed_tokens.weight": (spec.vocab_size, spec.hidden_size)}
    layer = layer_tensors(spec)
    for index in range(spec.num_layers):
        expected |= {f"model.layers.{index}.{name}": shape for name, shape in layer.items()}
    expected["model.norm.weight"] = (spec.hidden_size,)
    if not spec.tie_word_embeddings:
        expected["lm_head.weight"] = (spec.vocab_size, spec.hidden_size)
    return expected


def layer_tensors(spec: ModelSpec) -> dict[str, Shape]:
    hidden, inner, query, kv = spec.hidden_size, spec.intermediate_size, spec.query_size, spec.kv_size
    shapes: dict[str, Shape] = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (query, hidden),
        "self_attn.k_proj.weight": (kv, hidden),
        "self_attn.v_proj.weight": (kv, hidden),
        "self_attn.o_proj.weight": (hidden, query),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if spec.qkv_bias:
        shapes |= {
            "self_attn.q_proj.bias": (query,),
            "self_attn.k_proj.bias": (kv,),
            "self_attn.v_proj.bias": (kv,),
        }
    if spec.output_bias:
        shapes["self_attn.o_proj.bias"] = (hidden,)
    if spec.mlp_bias:
        shapes |= {"mlp.gate_proj.bias": (inner,), "mlp.up_proj.bias": (inner,), "mlp.down_proj.bias": (hidden,)}
    if spec.qk_norm:
        shapes |= {"self_attn.q_norm.weight": (spec.head_dim,), "self_attn.k_norm.weight": (spec.head_dim,)}
    return shapes


def from_gguf_name(name: str) -> str | None:
    """The Hugging Face name, or None for a name that is not in the table."""
    if found := GGUF_LAYER.fullmatch(name):
        index, part, kind = found.groups()
        return f"model.layers.{index}.{LAYER[part]}.{kind}" if part in LAYER else None
    if found := GGUF_TOP.fullmatch(name):
        part, kind = found.groups()
        return f"{TOP[part]}.{kind}" if part in TOP else None
    return None


def interleaved_heads(name: str, spec: ModelSpec) -> int | None:
    """How many heads' rows a llama GGUF interleaves in this tensor; None where rows are in order."""
    if name.endswith(("self_attn.q_proj.weight", "self_attn.q_proj.bias")):
        return spec.num_heads
    if name.endswith(("self_attn.k_proj.weight", "self_attn.k_proj.bias")):
        return spec.num_kv_heads
    return None


def is_harmless(name: str) -> bool:
    """Buffers that old checkpoints carry and that follow from the spec."""
    return OLD_ROPE_BUFFER.fullmatch(name) is not None
