"""Repetition, presence and frequency penalties.

Owns which tokens count: repetition looks at prompt and answer, presence and frequency at the answer alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.sampling.rows import NEVER, Scores
from engine.wire.request import Sampling

LARGEST = np.finfo(np.float32).max


def penalise(scores: Scores, sampling: Sampling, tokens: NDArray[np.int32], num_prompt: int) -> None:
    """Changes scores in place. tokens: prompt plus answer so far.

    Repetition (Keskar et al., arXiv:1909.05858, 4.1): positive scores are divided, the others multiplied. Then
    OpenAI's frequency (per occurrence) and presence (once) are subtracted.
    """
    if sampling.repetition_penalty != 1.0:
        ids = distinct(tokens, len(scores))
        old = scores[ids].astype(np.float64)
        factor = sampling.repetition_penalty
        with np.errstate(over="ignore"):  # a tiny factor may reach past float64; put() cuts that off
            put(scores, ids, np.where(old > 0.0, old / factor, old * factor))
    if sampling.frequency_penalty or sampling.presence_penalty:
        output = tokens[num_prompt:]
        ids = distinct(output, len(scores))
        counts = np.bincount(output, minlength=len(scores))[ids]
        penalty = sampling.frequency_penalty * counts + sampling.presence_penalty
        put(scores, ids, scores[ids] - penalty)


def distinct(tokens: NDArray[np.int32], vocab_size: int) -> NDArray[np.int64]:
    """The ids that occur, ascending."""
    occurs = np.zeros(vocab_size, dtype=np.bool_)
    occurs[tokens] = True
    return np.flatnonzero(occurs)


def put(scores: Scores, ids: NDArray[np.int64], values: NDArray[np.float64]) -> None:
    """Writes the values, kept within float32's finite range; what a mask put at -inf stays there."""
    scores[ids] = np.where(scores[ids] > NEVER, np.clip(values, -LARGEST, LARGEST), NEVER)
