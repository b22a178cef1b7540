"""The SiLU-gated MLP (arXiv 2002.05202), gate and up in one projection."""

from __future__ import annotations

from typing import Generic

from engine.kernels.port import B, Operators, Projection


class Mlp(Generic[B]):
    def __init__(self, operators: Operators[B], gate_up: Projection[B], down: Projection[B]) -> None:
        self.operators = operators
        self.gate_up = gate_up
        self.down = down

    def __call__(self, x: B) -> B:
        """[R, hidden] -> [R, hidden]"""
        return self.down(self.operators.silu_and_mul(self.gate_up(x)))
