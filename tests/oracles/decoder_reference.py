"""Llama, Qwen2 and Qwen3 from their papers' formulas, over Hugging Face configs and tensors, in float64 numpy.

No cache, no batch, no paging: the logits of every position of one sequence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tests.oracles.attention_reference import causal_attention, rotate_halves

Tensors = Mapping[str, np.ndarray]


def reference_logits(config: Mapping[str, object], tensors: Tensors, tokens: list[int]) -> np.ndarray:
    """float64 [T, vocab]"""
    x = tensors["model.embed_tokens.weight"][tokens].astype(np.float64)
    for index in range(int(config["num_hidden_layers"])):
        layer = Layer(config, tensors, f"model.layers.{index}.")
        x = x + layer.attention(layer.norm("input_layernorm", x))
        x = x + layer.mlp(layer.norm("post_attention_layernorm", x))
    head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return rms_norm(x, tensors["model.norm.weight"], config["rms_norm_eps"]) @ tensors[head].astype(np.float64).T


class Layer:
    def __init__(self, config: Mapping[str, object], tensors: Tensors, prefix: str) -> None:
        self.config, self.tensors, self.prefix = config, tensors, prefix

    def attention(self, x: np.ndarray) -> np.ndarray:
        positions = np.arange(len(x))
        queries, keys, values = (self.heads(f"self_attn.{part}_proj", x) for part in "qkv")
        if f"{self.prefix}self_attn.q_norm.weight" in self.tensors:
            queries, keys = self.norm("self_attn.q_norm", queries), self.norm("self_attn.k_norm", keys)
        frequencies = inverse_frequencies(self.config)
        queries, keys = (rotate_halves(each, positions, frequencies) for each in (queries, keys))
        return self.linear("self_attn.o_proj", causal_attention(queries, keys, values).reshape(len(x), -1))

    def heads(self, name: str, x: np.ndarray) -> np.ndarray:
        return self.linear(name, x).reshape(len(x), -1, int(self.config["head_dim"]))

    def mlp(self, x: np.ndarray) -> np.ndarray:
        gate, up = self.linear("mlp.gate_proj", x), self.linear("mlp.up_proj", x)
        return self.linear("mlp.down_proj", gate / (1 + np.exp(-gate)) * up)

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        return rms_norm(x, self.tensors[f"{self.prefix}{name}.weight"], self.config["rms_norm_eps"])

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        product = x @ self.tensors[f"{self.prefix}{name}.weight"].astype(np.float64).T
        bias = self.tensors.get(f"{self.prefix}{name}.bias")
        return product if bias is None else product + bias


def rms_norm(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * weight


def inverse_frequencies(config: Mapping[str, object]) -> np.ndarray:
    """[head_dim / 2], scaled as rope_scaling says: linear, or by Llama 3.1's rule, written out wave by wave."""
    dim = int(config["head_dim"])
    scaling = config.get("rope_scaling") or {"rope_type": "default"}
    found = []
    for pair in range(dim // 2):
        frequency = 1.0 / float(config["rope_theta"]) ** (2 * pair / dim)
        if scaling["rope_type"] == "linear":
            frequency /= scaling["factor"]
        elif scaling["rope_type"] == "llama3":
            frequency = llama3(frequency, scaling)
        found.append(frequency)
    return np.array(found)


def llama3(frequency: float, scaling: Mapping[str, float]) -> float:
    original, low, high = (
        scaling[key] for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    wave = 2 * math.pi / frequency
    if wave < original / high:
        return frequency
    if wave > original / low:
        return frequency / scaling["factor"]
    smooth = (original / wave - low) / (high - low)
    return (1 - smooth) * frequency / scaling["factor"] + smooth * frequency
