"""Builds batch records for sequences that grow by chunks, in blocks dealt out in random order."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from engine.kernels.batch import StepBatch


class PagedSequences:
    """Sequences by number; block 0 is never dealt out, since tables are padded with it."""

    def __init__(self, num_sequences: int, *, block_size: int = 16, num_blocks: int = 512, seed: int = 0) -> None:
        self.block_size = block_size
        self.free = list(range(1, num_blocks))
        random.Random(seed).shuffle(self.free)
        self.tokens: list[list[int]] = [[] for _ in range(num_sequences)]
        self.tables: list[list[int]] = [[] for _ in range(num_sequences)]

    def step(self, runs: Sequence[tuple[int, Sequence[int]]], *, all_logits: bool = False) -> StepBatch:
        """runs: (sequence, its next tokens), in the order of the rows. Logits of the last row of each, or of all."""
        positions: list[int] = []
        slots: list[int] = []
        starts = [0]
        for sequence, tokens in runs:
            begin = len(self.tokens[sequence])
            self.extend(sequence, tokens)
            positions += range(begin, begin + len(tokens))
            slots += [self.slot(sequence, position) for position in range(begin, begin + len(tokens))]
            starts.append(starts[-1] + len(tokens))
        lengths = [len(self.tokens[sequence]) for sequence, _ in runs]
        width = -(-max(lengths) // self.block_size)
        rows = range(starts[-1]) if all_logits else [start - 1 for start in starts[1:]]
        return StepBatch(
            token_ids=np.array([token for _, tokens in runs for token in tokens], np.int32),
            positions=np.array(positions, np.int32),
            query_starts=np.array(starts, np.int32),
            context_lens=np.array(lengths, np.int32),
            block_tables=np.array([self.padded_table(sequence, width) for sequence, _ in runs], np.int32),
            slot_mapping=np.array(slots, np.int64),
            logits_rows=np.array(rows, np.int64),
        )

    def extend(self, sequence: int, tokens: Sequence[int]) -> None:
        self.tokens[sequence] += tokens
        while len(self.tables[sequence]) * self.block_size < len(self.tokens[sequence]):
            self.tables[sequence].append(self.free.pop())

    def forget(self, sequence: int) -> None:
        """Its blocks go back, and are the next to be dealt out."""
        self.free += self.tables[sequence]
        self.tokens[sequence], self.tables[sequence] = [], []

    def slot(self, sequence: int, position: int) -> int:
        return self.tables[sequence][position // self.block_size] * self.block_size + position % self.block_size

    def padded_table(self, sequence: int, width: int) -> list[int]:
        table = self.tables[sequence][:width]
        return table + [0] * (width - len(table))


def empty_step() -> StepBatch:
    """The dummy step of a rank with nothing to do."""
    none = np.zeros(0, np.int32)
    return StepBatch(
        none,
        none,
        np.zeros(1, np.int32),
        none,
        np.zeros((0, 0), np.int32),
        none.astype(np.int64),
        none.astype(np.int64),
    )
