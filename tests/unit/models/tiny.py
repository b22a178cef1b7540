"""The tiny models that tests of this room and their golden file share."""

from __future__ import annotations

from tests.oracles.tiny_models import Config, Tensors, tiny_model

TOKENS = [1, 17, 80, 33, 33, 5, 95, 2, 64, 12, 71, 48, 3, 9, 27, 55, 90, 14, 8, 66, 41, 77, 30, 59, 22, 0, 86, 38]
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CASES: dict[str, tuple[str, dict[str, object]]] = {
    "llama": ("llama", {}),
    "llama-untied": ("llama", {"tie_word_embeddings": False}),
    "llama-own-keys-for-every-head": ("llama", {"num_key_value_heads": 4}),
    "llama-one-key-head": (
        "llama",
        {"hidden_size": 96, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32},
    ),
    "llama-biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-linear-rope": ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "llama-llama3-rope": ("llama", {"rope_scaling": LLAMA3}),
    "qwen2": ("qwen2", {}),
    "qwen2-untied": ("qwen2", {"tie_word_embeddings": False, "num_hidden_layers": 3}),
    "qwen3": ("qwen3", {}),
    "qwen3-wide-heads": ("qwen3", {"head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": 1e6}),
}


def model_of(name: str) -> tuple[Config, Tensors]:
    """Weights large enough that every part of the model moves the logits."""
    architecture, changes = CASES[name]
    return tiny_model(architecture, scale=0.3, **changes)
