"""What a model is: the numbers that fix its shapes and its arithmetic.

Owns ModelSpec and its checks; spec_gguf and spec_hf fill it. Knows no tensor.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from engine.checkpoint.fields import Fields
from engine.checkpoint.rope import RopeScaling

Architecture = Literal["llama", "qwen2", "qwen3"]
ARCHITECTURES: dict[str, Architecture] = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}


class ModelSpec(Struct, frozen=True, kw_only=True):
    """A decoder with RMSNorm, rotary positions, grouped-query attention and a SiLU-gated MLP.

    head_dim is even; num_heads is a multiple of num_kv_heads; token ids lie in [0, vocab_size).
    """

    architecture: Architecture
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_position: int  # tokens, prompt and answer together
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    qkv_bias: bool = False
    output_bias: bool = False  # on self_attn.o_proj
    mlp_bias: bool = False
    qk_norm: bool = False  # RMSNorm over head_dim of every query and key head, before rope
    tie_word_embeddings: bool = False
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    dtype: str = "float32"  # float32, float16, bfloat16, or the GGML format of most bytes ("q4_1")

    @property
    def query_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim


def check_spec(spec: ModelSpec, source: Fields) -> ModelSpec:
    """The relations between the numbers; raises ModelFileError, returns `spec` unchanged."""
    if spec.num_heads % spec.num_kv_heads:
        raise source.fault(f"{spec.num_heads} query heads are not a multiple of {spec.num_kv_heads} key heads")
    if spec.head_dim % 2:
        raise source.fault(f"the head size is {spec.head_dim}; rotary positions need an even one")
    for token in (*spec.eos_token_ids, *([] if spec.bos_token_id is None else [spec.bos_token_id])):
        if token >= spec.vocab_size:
            raise source.fault(f"special token {token} is outside the vocabulary of {spec.vocab_size}")
    return spec


def architecture_of(name: str, source: Fields) -> Architecture:
    found = ARCHITECTURES.get(name)
    if found is None:
        raise source.fault(f"the architecture {name!r} is not supported; supported are {', '.join(ARCHITECTURES)}")
    return found


def head_dim_of(hidden_size: int, num_heads: int, source: Fields) -> int:
    """The head size where a file does not give it."""
    if hidden_size % num_heads:
        raise source.fault(f"the hidden size {hidden_size} is not a multiple of {num_heads} heads")
    return hidden_size // num_heads


def no_repeats(ids: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(ids))
