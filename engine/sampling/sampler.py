"""How one sequence draws its next token: Sampling, made ready once, applied to one row of logits at a time.

Order as in vLLM: masks and bias, penalties, then greedy, or temperature, min-p, top-k, top-p and the draw.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.sampling import filters
from engine.sampling.draw import draw_of_all, draw_of_few
from engine.sampling.mask import Mask
from engine.sampling.penalties import penalise
from engine.sampling.rows import Scores, numbers_of
from engine.wire.request import Sampling

SEED_BITS = (1 << 64) - 1


class Sampler:
    """Holds no state that grows: the next token depends on the arguments alone."""

    def __init__(self, sampling: Sampling, num_prompt: int) -> None:
        self.sampling = sampling
        self.num_prompt = num_prompt
        self.seed = sampling.seed & SEED_BITS
        self.mask = Mask(sampling)
        self.has_penalties = (
            sampling.repetition_penalty != 1.0 or sampling.frequency_penalty != 0.0 or sampling.presence_penalty != 0.0
        )
        self.is_greedy = sampling.temperature < filters.GREEDY_BELOW
        self.is_plain = self.is_greedy and not self.has_penalties and self.mask.is_idle()
        """The token is simply the highest logit."""

    def draw(self, logits: Scores, tokens: NDArray[np.int32], uniform: float) -> int | None:
        """The next token after tokens (prompt plus answer so far); None when the logits hold no usable number.

        logits: [vocab], not changed. uniform: in [0, 1), the randomness of this position; greedy ignores it.
        """
        scores = self.scores(logits, tokens)
        if scores is None:
            return None
        if self.is_greedy:
            return int(scores.argmax())
        return self.draw_from(scores, uniform)

    def scores(self, logits: Scores, tokens: NDArray[np.int32]) -> Scores | None:
        """The logits after masks, bias and penalties: a copy, or the row itself where nothing applies."""
        numbers = numbers_of(logits)
        if numbers is None or (self.mask.is_idle() and not self.has_penalties):
            return numbers
        scores = numbers.copy()
        if not self.mask.apply(scores, tokens[self.num_prompt :]):
            return None
        if self.has_penalties:
            penalise(scores, self.sampling, tokens, self.num_prompt)
        return scores

    def draw_from(self, scores: Scores, uniform: float) -> int:
        """Temperature, the cuts and the draw. Which way a row goes is decided by its own parameters only."""
        wanted = self.sampling
        if 0 < wanted.top_k < len(scores):
            if wanted.top_k <= filters.LONGEST_SORT:
                few = filters.top_candidates(scores, wanted.temperature, wanted.top_k, wanted.top_p, wanted.min_p)
                return int(few.ids[draw_of_few(few.weights, uniform)])
            scores = filters.only_best(scores, wanted.top_k)
        weights = filters.weights_of_all(scores, wanted.temperature, wanted.min_p)
        if wanted.top_p < 1.0:
            return self.draw_from_nucleus(scores, weights, uniform)
        return draw_of_all(weights, uniform)

    def draw_from_nucleus(self, scores: Scores, weights: Scores, uniform: float) -> int:
        goal = self.sampling.top_p * float(weights.sum(dtype=np.float64))
        few = filters.nucleus_candidates(scores, weights, goal)
        if few is not None:
            return int(few.ids[draw_of_few(few.weights, uniform)])
        filters.cut_to_nucleus(scores, weights, goal, self.sampling.temperature)
        return draw_of_all(weights, uniform)
