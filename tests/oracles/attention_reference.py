"""Causal grouped-query attention of one whole sequence, one query head and one position at a time, in float64."""

from __future__ import annotations

import numpy as np


def causal_attention(queries: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """queries: [T, heads, dim]; keys, values: [T, kv_heads, dim] -> [T, heads, dim] (arXiv 1706.03762, 2305.13245)."""
    number, num_heads, dim = queries.shape
    shared = num_heads // keys.shape[1]
    out = np.empty((number, num_heads, dim))
    for position in range(number):
        seen_keys, seen_values = keys[: position + 1], values[: position + 1]
        for head in range(num_heads):
            scores = seen_keys[:, head // shared] @ queries[position, head].astype(np.float64) / np.sqrt(dim)
            weights = np.exp(scores - scores.max())
            out[position, head] = weights @ seen_values[:, head // shared] / weights.sum()
    return out


def rotate_halves(heads: np.ndarray, positions: np.ndarray, inverse_frequencies: np.ndarray) -> np.ndarray:
    """heads: [T, n, dim]: value i and value i + dim / 2 turn together (arXiv 2104.09864, as Hugging Face orders it)."""
    half = heads.shape[2] // 2
    angles = positions[:, None, None] * inverse_frequencies
    first, second = heads[:, :, :half].astype(np.float64), heads[:, :, half:].astype(np.float64)
    turned = first * np.cos(angles) - second * np.sin(angles), first * np.sin(angles) + second * np.cos(angles)
    return np.concatenate(turned, axis=2)
