"""What the worker adds to the model: a plan read, its batch built, its result packed."""

from __future__ import annotations

import torch

from engine.base.clock import SystemClock
from engine.kernels.batch import StepBatch
from engine.wire.request import Sampling
from engine.wire.step import Admit, StepPlan
from engine.wire.tokens import pack_ints
from engine.worker.runner import ModelRunner

ROWS, PROMPT, BLOCK, VOCAB = 64, 1000, 16, 64
TABLE = pack_ints(range(1, 66))


class StillModel:
    """Always the same logits, at no cost."""

    vocab_size = VOCAB
    block_bytes = 1

    def __init__(self) -> None:
        self.logits = torch.zeros(ROWS, VOCAB)

    def allocate_cache(self, num_blocks: int) -> None:
        del num_blocks

    def forward(self, batch: StepBatch) -> torch.Tensor:
        return self.logits[: len(batch.logits_rows)]


class Step:
    """64 sequences of about a thousand tokens, each a token further; every repetition begins at the same length."""

    version = "1"
    number = 1
    repeat = 30
    warmup_time = 0.0

    def setup(self) -> None:
        self.runner = ModelRunner(
            StillModel(), max_num_seqs=ROWS, max_model_len=2048, block_size=BLOCK, vocab_size=VOCAB, clock=SystemClock()
        )
        prompt = pack_ints(range(PROMPT))
        greedy = Sampling(max_tokens=99)
        admits = [Admit(slot, slot + 1, 0, prompt, PROMPT, 0, greedy, TABLE) for slot in range(ROWS)]
        self.runner.execute(self.plan(admits, PROMPT, 0))
        self.decode = self.plan([], 1, PROMPT)

    def plan(self, admits: list[Admit], count: int, start: int) -> StepPlan:
        columns = [pack_ints(values) for values in (range(ROWS), [count] * ROWS, [start] * ROWS)]
        return StepPlan(1, b"", admits, b"", *columns, bytes([1] * ROWS))

    def time_decode_64_rows(self) -> None:
        self.runner.execute(self.decode)
