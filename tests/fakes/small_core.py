"""A core just large enough to run a ModelRunner: sequences, blocks and plans, with the test in charge of every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from engine.wire.output import LogprobRows
from engine.wire.request import Sampling
from engine.wire.step import Admit, RowLogprobs, StepPlan, StepResult
from engine.wire.tokens import pack_ints, unpack


class Runs(Protocol):
    """A ModelRunner, or a Worker that has one."""

    def execute(self, plan: StepPlan) -> StepResult: ...


class FakeSequence:
    """What the core knows of a sequence in a slot."""

    def __init__(self, slot: int, tokens: Sequence[int], num_prompt: int, sampling: Sampling) -> None:
        self.slot = slot
        self.tokens = list(tokens)
        self.num_prompt = num_prompt
        self.sampling = sampling
        self.computed = 0
        self.blocks: list[int] = []
        self.corrupted = False
        self.logprobs: list[RowLogprobs] = []

    @property
    def output(self) -> list[int]:
        return self.tokens[self.num_prompt :]


class SmallCore:
    """Blocks are handed out in a shuffled order, so that neighbours in a table are none in memory."""

    def __init__(self, runner: Runs, num_blocks: int, block_size: int, seed: int = 0) -> None:
        self.runner = runner
        self.block_size = block_size
        self.free = np.random.default_rng(seed).permutation(num_blocks).tolist()
        self.release: list[int] = []
        self.admits: list[Admit] = []
        self.new_blocks: list[int] = []
        self.steps = 0

    def admit(
        self,
        slot: int,
        tokens: Sequence[int],
        sampling: Sampling,
        num_prompt: int | None = None,
        shared: tuple[FakeSequence, int] | None = None,
    ) -> FakeSequence:
        """shared: (another sequence, how many of its full blocks stand for the first tokens of this one)."""
        sequence = FakeSequence(slot, tokens, num_prompt or len(tokens), sampling)
        if shared is not None:
            sequence.blocks = shared[0].blocks[: shared[1]]
            sequence.computed = shared[1] * self.block_size
        self.admits.append(
            Admit(
                slot, slot + 1, 0, pack_ints(tokens), sequence.num_prompt, sequence.computed, sampling,
                pack_ints(sequence.blocks),
            )
        )  # fmt: skip
        return sequence

    def drop(self, sequence: FakeSequence) -> None:
        """The blocks stay as they are: the test may go on sharing them."""
        self.release.append(sequence.slot)

    def step(self, rows: Sequence[tuple[FakeSequence, int]]) -> StepResult:
        """Runs so many tokens of each of these sequences, and takes over what came of it."""
        for sequence, count in rows:
            while len(sequence.blocks) * self.block_size < sequence.computed + count:
                sequence.blocks.append(self.free.pop())
                self.new_blocks.extend((sequence.slot, sequence.blocks[-1]))
        result = self.runner.execute(self.plan(rows))
        assert result.step == self.steps
        drawn = iter(unpack(result.tokens))
        for (sequence, count), length in zip(rows, unpack(result.lengths), strict=True):
            sequence.computed += count
            sequence.tokens.extend(next(drawn) for _ in range(length))
        for row in unpack(result.corrupted):
            rows[row][0].corrupted = True
        for entry in result.logprobs:
            rows[entry.row][0].logprobs.append(entry)
        return result

    def plan(self, rows: Sequence[tuple[FakeSequence, int]]) -> StepPlan:
        self.steps += 1
        plan = StepPlan(
            self.steps,
            pack_ints(self.release),
            self.admits,
            pack_ints(self.new_blocks),
            pack_ints(sequence.slot for sequence, _ in rows),
            pack_ints(count for _, count in rows),
            pack_ints(sequence.computed for sequence, _ in rows),
            bytes(sequence.computed + count == len(sequence.tokens) for sequence, count in rows),
        )
        self.release, self.admits, self.new_blocks = [], [], []
        return plan

    def decode(self, sequences: Sequence[FakeSequence], num_tokens: int) -> None:
        """Runs all uncomputed tokens of these sequences, then one each, until so many steps are done."""
        for _ in range(num_tokens):
            self.step([(sequence, len(sequence.tokens) - sequence.computed) for sequence in sequences])


def entries(rows: LogprobRows) -> list[tuple[list[int], list[float], int]]:
    """(ids, values, rank) of each row."""
    ids = np.frombuffer(rows.ids, dtype="<i4").reshape(-1, rows.width).tolist()
    values = np.frombuffer(rows.values, dtype="<f4").reshape(-1, rows.width).tolist()
    return list(zip(ids, values, unpack(rows.ranks), strict=True))
