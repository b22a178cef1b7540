"""What became of each row of a plan, on its way to a StepResult.

Owns the result's columns and the rule that a corrupted row has no token. Row order is the plan's.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.batch import Int32
from engine.wire.output import LogprobRows
from engine.wire.step import RowLogprobs, StepResult
from engine.wire.tokens import pack_ints


class Outcome:
    """Filled in by the runner during one step of R rows."""

    def __init__(self, num_rows: int) -> None:
        self.tokens = np.zeros(num_rows, dtype=np.int32)
        """Means something where has_token holds."""
        self.has_token = np.zeros(num_rows, dtype=np.bool_)
        self.corrupted = np.zeros(num_rows, dtype=np.bool_)
        self.sampled: dict[int, LogprobRows] = {}
        self.prompt: dict[int, LogprobRows] = {}

    def corrupt(self, row: int) -> None:
        """The row's logits held no number: it gets no token from now on."""
        self.corrupted[row] = True

    def draw(self, row: int, token: int) -> None:
        self.tokens[row] = token
        self.has_token[row] = not self.corrupted[row]

    def drawn_rows(self) -> Int32:
        """Rows that have a token, ascending."""
        return np.flatnonzero(self.has_token).astype(np.int32)

    def result(self, step: int, forward_s: float, sample_s: float) -> StepResult:
        rows = sorted({*self.sampled, *self.prompt})
        return StepResult(
            step,
            lengths=pack_ints(self.has_token.astype(np.int32)),
            tokens=pack_ints(self.tokens[self.has_token]),
            corrupted=pack_ints(np.flatnonzero(self.corrupted)),
            logprobs=[RowLogprobs(row, self.sampled.get(row), self.prompt.get(row)) for row in rows],
            forward_s=forward_s,
            sample_s=sample_s,
        )
