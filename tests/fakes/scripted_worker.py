"""A worker without a model: it executes plans against slots, tables and KV memory of its own, and checks each.

Its next token is a pure function of the sequence so far, so whatever the scheduler does, the answer is known.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from engine.wire.output import LogprobRows
from engine.wire.request import Sampling
from engine.wire.step import Admit, RowLogprobs, StepPlan, StepResult
from engine.wire.tokens import pack_ints, unpack

VOCABULARY = 5


def next_token(tokens: Sequence[int]) -> int:
    """Depends on every token and its position; few enough values that ends and shared prefixes happen."""
    return abs(hash(tuple(tokens))) // 7 % VOCABULARY


def score(tokens: Sequence[int]) -> float:
    """What stands in for the log probability of the last token, given those before it."""
    return float(-(abs(hash(tuple(tokens))) % 1000))


def content(salt: str, tokens: Sequence[int]) -> int:
    """What stands in for the keys and values of the last of these tokens."""
    return hash((salt, *tokens))


class Slot:
    """One sequence as the worker knows it. frontier: tokens whose KV it has written, or was told are shared."""

    def __init__(self, admit: Admit) -> None:
        self.request = admit.request
        self.tokens = unpack(admit.tokens)
        self.num_prompt = admit.num_prompt
        self.frontier = admit.computed
        self.sampling: Sampling = admit.sampling
        self.blocks = unpack(admit.blocks)
        self.length_limit = admit.num_prompt + admit.sampling.max_tokens


class ScriptedWorker:
    """Asserts what a real worker relies on.

    corrupt: requests whose logits hold no number from now on. salts: by request; a real worker knows of none, this
    one mixes them into what it writes, so that a block shared between two of them is noticed.
    """

    def __init__(self, num_slots: int, num_blocks: int, block_size: int, max_tokens: int) -> None:
        self.num_slots = num_slots
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.max_tokens = max_tokens
        self.memory: dict[tuple[int, int], int] = {}
        self.slots: dict[int, Slot] = {}
        self.steps = 0
        self.num_computed = 0
        self.corrupt: set[int] = set()
        self.salts: dict[int, str] = {}

    def run(self, plan: StepPlan) -> StepResult:
        self.steps += 1
        assert plan.step == self.steps, "plans come in order, each once"
        self.take_over(plan)
        rows = list(zip(unpack(plan.slots), unpack(plan.counts), unpack(plan.starts), plan.sample, strict=True))
        assert rows, "an empty plan is never sent"
        assert len({slot for slot, *_ in rows}) == len(rows), "nobody has two rows"
        assert sum(count for _, count, *_ in rows) <= self.max_tokens, "the budget holds"
        lengths, tokens = array("i"), array("i")
        corrupted, logprobs = array("i"), list[RowLogprobs]()
        for row, (slot, count, start, sample) in enumerate(rows):
            sequence = self.slots[slot]
            self.write(slot, start, count)
            at_end, full = start + count == len(sequence.tokens), len(sequence.tokens) >= sequence.length_limit
            assert bool(sample) == (at_end and not full), "a row draws where the known tokens end"
            if sample and sequence.request in self.corrupt:
                corrupted.append(row)
                lengths.append(0)
                continue
            drawn = [next_token(sequence.tokens)] if sample else []
            if (scores := self.scores(row, sequence, start, count, drawn)) is not None:
                logprobs.append(scores)
            sequence.tokens.extend(drawn)
            lengths.append(len(drawn))
            tokens.extend(drawn)
        return StepResult(plan.step, pack_ints(lengths), pack_ints(tokens), pack_ints(corrupted), logprobs)

    def take_over(self, plan: StepPlan) -> None:
        """Releases, then admissions, then new blocks: the order that the plan promises."""
        for slot in unpack(plan.release):
            del self.slots[slot]
        for admit in plan.admit:
            assert 0 <= admit.slot < self.num_slots and admit.slot not in self.slots, (
                "a slot is free before it is taken"
            )
            assert admit.request not in {slot.request for slot in self.slots.values()}, "nobody sits in two slots"
            self.slots[admit.slot] = Slot(admit)
        pairs = unpack(plan.new_blocks)
        for slot, block in zip(pairs[::2], pairs[1::2], strict=True):
            self.slots[slot].blocks.append(block)

    def write(self, slot: int, start: int, count: int) -> None:
        """Computes a row: reads everything before it, writes its own tokens, and finds both to be right."""
        sequence = self.slots[slot]
        end = start + count
        assert start == sequence.frontier, "a row goes on where the last one ended"
        assert count >= 1 and end <= len(sequence.tokens), "a row runs known tokens"
        assert end <= len(sequence.blocks) * self.block_size, "its blocks cover the row"
        assert len(set(sequence.blocks)) == len(sequence.blocks)
        assert all(0 <= block < self.num_blocks for block in sequence.blocks)
        salt = self.salts[sequence.request]
        for position in range(start):
            expected = content(salt, sequence.tokens[: position + 1])
            assert self.memory[self.place(sequence, position)] == expected, "a row reads what it, or its like, wrote"
        written = {self.place(sequence, position)[0] for position in range(start, end)}
        for other, neighbour in self.slots.items():
            assert other == slot or written.isdisjoint(neighbour.blocks), "a shared block is written"
        for position in range(start, end):
            self.memory[self.place(sequence, position)] = content(salt, sequence.tokens[: position + 1])
        sequence.frontier = end
        self.num_computed += count

    def place(self, sequence: Slot, position: int) -> tuple[int, int]:
        return sequence.blocks[position // self.block_size], position % self.block_size

    def scores(self, row: int, sequence: Slot, start: int, count: int, drawn: list[int]) -> RowLogprobs | None:
        known = [*sequence.tokens, *drawn]
        sampled = prompt = None
        if sequence.sampling.logprobs is not None and drawn:
            sampled = logprob_rows(known, len(known) - 1, len(known))
        last = min(start + count + 1, sequence.num_prompt)
        if sequence.sampling.prompt_logprobs is not None and start + 1 < last:
            prompt = logprob_rows(known, start + 1, last)
        return RowLogprobs(row, sampled, prompt) if sampled or prompt else None


def logprob_rows(tokens: Sequence[int], first: int, end: int) -> LogprobRows:
    """Rows of tokens[first:end], one entry wide."""
    return LogprobRows(
        width=1,
        ids=pack_ints(tokens[first:end]),
        values=array("f", [score(tokens[: position + 1]) for position in range(first, end)]).tobytes(),
        ranks=pack_ints(range(first, end)),
    )
