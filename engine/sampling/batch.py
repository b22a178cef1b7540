"""The draws of one step: which rows are plain greedy (one argmax for all of them), and each other row alone.

Owns the way from the device to tokens. A row's token never depends on which rows stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from engine.sampling.draw import Float64, uniforms
from engine.sampling.rows import best_of_rows, host_rows
from engine.sampling.sampler import Sampler

Int32 = NDArray[np.int32]


class Drawn(NamedTuple):
    """tokens int32[R]; corrupted bool[R]: rows without a usable number, whose entry in tokens means nothing."""

    tokens: Int32
    corrupted: NDArray[np.bool_]


class SamplingBatch:
    """R rows that draw a token in this step: how each draws, and its tokens so far (prompt plus answer)."""

    def __init__(self, samplers: Sequence[Sampler], tokens: Sequence[Int32]) -> None:
        self.samplers = samplers
        self.tokens = tokens

    def draw(self, logits: torch.Tensor) -> Drawn:
        """logits: float32 [R, vocab], on any device; not changed."""
        drawn = np.zeros(len(self.samplers), dtype=np.int32)
        corrupted = np.zeros(len(self.samplers), dtype=np.bool_)
        alone = [row for row, sampler in enumerate(self.samplers) if not sampler.is_plain]
        if len(alone) < len(self.samplers):
            best, values = best_of_rows(logits)
            drawn[:] = best
            # A best entry that is no number says nothing about the others: the row is looked at alone.
            broken = np.flatnonzero(~np.isfinite(values)).tolist()
            alone = sorted({*alone, *broken})
        if alone:
            self.draw_alone(logits, alone, drawn, corrupted)
        return Drawn(drawn, corrupted)

    def draw_alone(self, logits: torch.Tensor, rows: list[int], drawn: Int32, corrupted: NDArray[np.bool_]) -> None:
        """Fills in the entries of these rows."""
        numbers = self.uniforms(rows).tolist()
        for row, scores, number in zip(rows, host_rows(logits, rows), numbers, strict=True):
            token = self.samplers[row].draw(scores, self.tokens[row], number)
            corrupted[row] = token is None
            drawn[row] = token or 0

    def uniforms(self, rows: list[int]) -> Float64:
        """The randomness of each row: of its seed and of how many tokens its answer has. [len(rows)]"""
        seeds = np.array([self.samplers[row].seed for row in rows], dtype=np.uint64)
        positions = np.array([len(self.tokens[row]) - self.samplers[row].num_prompt for row in rows], dtype=np.uint64)
        return uniforms(seeds, positions)
