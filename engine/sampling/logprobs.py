"""Log probabilities of the raw distribution: before temperature, masks and penalties.

Owns the columns of LogprobRows. Works on one row at a time, so that its memory does not grow with the prompt.
"""

from __future__ import annotations

import numpy as np

from engine.sampling.draw import Float64
from engine.sampling.filters import Ids, best_ids
from engine.sampling.rows import Scores, numbers_of
from engine.wire.output import LogprobRows


class LogprobColumns:
    """Collects rows: of each token its own entry, then those of the best ids (at most as many as there are)."""

    def __init__(self, alternatives: int, vocab_size: int) -> None:
        self.alternatives = min(alternatives, vocab_size)
        self.ids = bytearray()
        self.values = bytearray()
        self.ranks = bytearray()

    def add(self, logits: Scores, token: int) -> bool:
        """Adds the row of a token that came next after these logits ([vocab]); False where they hold no number."""
        numbers = numbers_of(logits)
        if numbers is None:
            return False
        ids = np.array([token], dtype=np.int64)
        if self.alternatives:
            ids = np.concatenate((ids, best_ids(numbers, self.alternatives)))
        self.ids += ids.astype("<i4").tobytes()
        self.values += log_probabilities(numbers, ids).astype("<f4").tobytes()
        self.ranks += np.array([rank(numbers, token)], dtype="<i4").tobytes()
        return True

    def rows(self) -> LogprobRows:
        width = 1 + self.alternatives
        return LogprobRows(width, bytes(self.ids), bytes(self.values), bytes(self.ranks))


def log_probabilities(numbers: Scores, ids: Ids) -> Float64:
    """log softmax of the row at these ids; -inf where the row is. [vocab], [n] -> [n]"""
    peak = numbers.max()
    with np.errstate(over="ignore"):  # a difference of float32's ends is -inf, and its weight 0
        total = np.exp(numbers - peak).sum(dtype=np.float64)
    distances: Float64 = numbers[ids].astype(np.float64) - float(peak)
    return distances - float(np.log(total))


def rank(numbers: Scores, token: int) -> int:
    """1 for the best id; equals by lower id, as the alternatives are ordered."""
    own = numbers[token]
    better = np.count_nonzero(numbers > own) + np.count_nonzero(numbers[:token] == own)
    return 1 + int(better)
