"""From a plan's rows to the batch record: which tokens run, at which positions, into which cache slots.

Owns the arithmetic between sequences, blocks and rows. Reads the columns of rows.py and changes none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import EngineFault
from engine.kernels.batch import Int32, Int64, StepBatch
from engine.wire.step import StepPlan
from engine.worker.rows import Rows, column, flags


class Runs(NamedTuple):
    """A plan's rows, read and found to agree with what the worker keeps. All [R]."""

    slots: Int32
    starts: Int32
    ends: Int32
    sample: NDArray[np.bool_]


class Wanted(NamedTuple):
    """Which rows of the batch have logits, and what they are for. Indices count in logits_rows."""

    logits_rows: Int64
    drawing: list[int]
    """Plan rows that draw a token, ascending."""
    drawn_from: list[int]
    """For each of these the index of its logits."""
    prompt: list[tuple[int, int, int]]
    """(plan row, first index, number of rows) whose logits speak of prompt tokens."""


def read_plan(plan: StepPlan, rows: Rows) -> Runs:
    """Raises EngineFault when the plan does not fit the rows: nothing has been computed then."""
    slots, counts, starts, sample = column(plan.slots), column(plan.counts), column(plan.starts), flags(plan.sample)
    if not len(slots) == len(counts) == len(starts) == len(sample):
        raise EngineFault("the columns of the plan differ in length")
    different = set(slots.tolist())
    if len(different) < len(slots) or not different <= set(range(len(rows.samplers))):
        raise EngineFault("a slot of the plan does not exist, or comes twice")
    ends = starts + counts
    known = rows.num_tokens[slots]
    wrong = (
        (counts <= 0)
        | (starts != rows.num_computed[slots])
        | (ends > known)
        | (sample & (ends != known))
        | (ends > rows.num_blocks[slots] * rows.block_size)
    )
    if wrong.any():
        raise EngineFault(disagreement(rows, int(slots[wrong][0]), int(starts[wrong][0]), int(ends[wrong][0])))
    return Runs(slots, starts, ends, sample)


def disagreement(rows: Rows, slot: int, start: int, end: int) -> str:
    return (
        f"the plan runs tokens {start} to {end} of slot {slot}, which has {rows.num_tokens[slot]} tokens, "
        f"{rows.num_computed[slot]} of them computed, and {rows.num_blocks[slot]} blocks of {rows.block_size}"
    )


def build_batch(runs: Runs, wanted: Wanted, query_starts: Int32, rows: Rows) -> StepBatch:
    """The record that the kernels read."""
    counts = np.diff(query_starts)
    slots = np.repeat(runs.slots, counts)  # [T], the slot of each row
    positions = np.arange(query_starts[-1], dtype=np.int32) + np.repeat(runs.starts - query_starts[:-1], counts)
    blocks, offsets = np.divmod(positions, np.int32(rows.block_size))
    slot_mapping = rows.block_tables[slots, blocks].astype(np.int64) * rows.block_size + offsets
    width = -(-int(runs.ends.max()) // rows.block_size)
    return StepBatch(
        token_ids=rows.token_ids[slots, positions],
        positions=positions,
        query_starts=query_starts,
        context_lens=runs.ends,
        block_tables=rows.block_tables[runs.slots, :width],
        slot_mapping=slot_mapping,
        logits_rows=wanted.logits_rows,
    )


def query_starts_of(runs: Runs) -> Int32:
    """[R + 1]"""
    starts = np.zeros(len(runs.slots) + 1, dtype=np.int32)
    np.cumsum(runs.ends - runs.starts, out=starts[1:])
    return starts


def wanted_logits(runs: Runs, query_starts: Int32, rows: Rows) -> Wanted:
    """The last row of each sequence that draws, and the rows whose prompt logprobs are asked for."""
    drawing = np.flatnonzero(runs.sample)
    last_rows = query_starts[1:].astype(np.int64) - 1
    num_prompt = np.clip(np.minimum(rows.prompt_logits[runs.slots], runs.ends) - runs.starts, 0, None)
    if not num_prompt.any():
        return Wanted(last_rows[drawing], drawing.tolist(), list(range(len(drawing))), [])
    pieces: list[Int64] = []
    drawn_from: list[int] = []
    prompt: list[tuple[int, int, int]] = []
    index = 0
    for row, (number, draws) in enumerate(zip(num_prompt.tolist(), runs.sample.tolist(), strict=True)):
        if number:
            pieces.append(query_starts[row] + np.arange(number, dtype=np.int64))
            prompt.append((row, index, number))
        if draws:
            pieces.append(last_rows[row : row + 1])
            drawn_from.append(index + number)
        index += number + draws
    return Wanted(np.concatenate(pieces), drawing.tolist(), drawn_from, prompt)
