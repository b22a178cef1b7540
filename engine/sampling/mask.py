"""Allowed ids, logit bias, min_tokens and bad sequences: what may not be drawn, and what is made likelier.

Owns the rule that bans never leave a row without candidates. Knows no penalties.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.sampling.rows import NEVER, Scores
from engine.wire.request import Sampling


class Mask:
    """The masks of one sequence, its id tuples turned into index arrays once."""

    def __init__(self, sampling: Sampling) -> None:
        self.allowed = np.array(sampling.allowed_ids, dtype=np.int64)
        self.bias_ids = np.array(sampling.bias_ids, dtype=np.int64)
        self.bias_values = np.array(sampling.bias_values, dtype=np.float32)
        self.min_tokens = sampling.min_tokens if sampling.end_ids else 0
        self.end_ids = sampling.end_ids
        self.bad_sequences = sampling.bad_sequences

    def is_idle(self) -> bool:
        """Never changes a row."""
        counts = (len(self.allowed), len(self.bias_ids), self.min_tokens, len(self.bad_sequences))
        return not any(counts)

    def apply(self, scores: Scores, output: NDArray[np.int32]) -> bool:
        """Changes scores in place; output is the answer so far. False when no id above -inf is left.

        Where the bans of this step would leave nothing, they are lifted: the request asked for a contradiction
        (say, an allowed id that is also an end id, before min_tokens), and one of its wishes has to give way.
        """
        if len(self.allowed):
            allowed = scores[self.allowed]
            scores.fill(NEVER)
            scores[self.allowed] = allowed
        np.add.at(scores, self.bias_ids, self.bias_values)
        banned = self.banned(output)
        before = scores[banned]
        scores[banned] = NEVER
        if banned and scores.max() == NEVER:
            scores[banned] = before
        return bool(scores.max() > NEVER)

    def banned(self, output: NDArray[np.int32]) -> list[int]:
        """Ids that may not come next: end ids below min_tokens, and the last ids of bad sequences begun."""
        ends = list(self.end_ids) if len(output) < self.min_tokens else []
        return ends + [bad[-1] for bad in self.bad_sequences if would_complete(output, bad)]


def would_complete(output: NDArray[np.int32], sequence: tuple[int, ...]) -> bool:
    """Does the answer end in all of the sequence but its last token?"""
    begun = len(sequence) - 1
    return tuple(output[len(output) - begun :].tolist()) == sequence[:begun]
