"""RMSNorm (arXiv 1910.07467) with the residual stream it reads."""

from __future__ import annotations

from typing import Generic

from engine.kernels.port import B, Operators


class RmsNorm(Generic[B]):
    def __init__(self, operators: Operators[B], weight: B, epsilon: float) -> None:
        self.operators = operators
        self.weight = weight
        self.epsilon = epsilon

    def __call__(self, x: B) -> B:
        return self.operators.rms_norm(x, self.weight, self.epsilon)

    def of_sum(self, x: B, residual: B) -> B:
        """Adds x to `residual` in place, and norms the sum."""
        return self.operators.add_rms_norm(x, residual, self.weight, self.epsilon)
