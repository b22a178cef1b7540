"""Grouped-query attention (arXiv 2305.13245): one fused projection, rotary positions, the paged cache.

Owns the order of the operators. Which of them a model has follows from its weights.
"""

from __future__ import annotations

from typing import Generic, NamedTuple

from engine.kernels.port import B, Operators, Projection


class HeadNorms(NamedTuple, Generic[B]):
    """RMSNorm weights [head_dim] of query and key heads."""

    query: B
    key: B


class Attention(Generic[B]):
    def __init__(
        self,
        operators: Operators[B],
        layer: int,
        qkv: Projection[B],
        output: Projection[B],
        head_norms: HeadNorms[B] | None,
        epsilon: float,
    ) -> None:
        self.operators = operators
        self.layer = layer
        self.qkv = qkv
        self.output = output
        self.head_norms = head_norms
        self.epsilon = epsilon

    def __call__(self, x: B) -> B:
        """[R, hidden] -> [R, hidden]"""
        qkv = self.qkv(x)
        if self.head_norms is not None:
            qkv = self.operators.head_norm(qkv, self.head_norms.query, self.head_norms.key, self.epsilon)
        queries = self.operators.rope_and_cache_write(self.layer, qkv)
        return self.output(self.operators.paged_attention(self.layer, queries))
