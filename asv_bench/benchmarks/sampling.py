"""Tokens from 32 rows of logits over 49,152 ids, in each way that rows can go."""

from __future__ import annotations

import numpy as np
import torch

from engine.sampling.batch import SamplingBatch
from engine.sampling.logprobs import LogprobColumns
from engine.sampling.sampler import Sampler
from engine.wire.request import Sampling

ROWS, VOCAB = 32, 49152
WAYS = {
    "greedy": [Sampling(max_tokens=99)],
    "temperature": [Sampling(max_tokens=99, temperature=0.8)],
    "top_p": [Sampling(max_tokens=99, temperature=0.8, top_p=0.9)],
    "wide_nucleus": [Sampling(max_tokens=99, temperature=1.5, top_p=0.95)],
    "top_k_top_p": [Sampling(max_tokens=99, temperature=0.8, top_k=50, top_p=0.9)],
    "penalties": [Sampling(max_tokens=99, repetition_penalty=1.1, presence_penalty=0.5)],
    "half_greedy_half_top_p": [Sampling(max_tokens=99), Sampling(max_tokens=99, temperature=0.8, top_p=0.9)],
}


class Draw:
    """One step's draws."""

    version = "1"
    params = list(WAYS)
    param_names = ["way"]

    def setup(self, way: str) -> None:
        generator = np.random.default_rng(0)
        self.logits = torch.from_numpy((generator.standard_normal((ROWS, VOCAB)) * 3).astype(np.float32))
        samplers = [Sampler(WAYS[way][row % len(WAYS[way])], 100) for row in range(ROWS)]
        tokens = [generator.integers(0, VOCAB, size=600).astype(np.int32) for _ in range(ROWS)]
        self.batch = SamplingBatch(samplers, tokens)

    def time_step_32_rows(self, way: str) -> None:
        self.batch.draw(self.logits)


class Logprobs:
    """One row with 20 alternatives."""

    version = "1"

    def setup(self) -> None:
        self.logits = (np.random.default_rng(0).standard_normal(VOCAB) * 3).astype(np.float32)

    def time_one_row(self) -> None:
        LogprobColumns(20, VOCAB).add(self.logits, 7)
