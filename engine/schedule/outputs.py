"""What the scheduler has to say to clients, and how much of a row's logprobs belongs in it."""

from __future__ import annotations

from typing import NamedTuple

from engine.schedule.request import Request
from engine.wire.output import Delta, Failed, LogprobRows
from engine.wire.step import RowLogprobs
from engine.wire.tokens import ITEM_BYTES


class Outputs(NamedTuple):
    """Deltas and failures, each in the order they came to be. A client reads a request's deltas before its failure."""

    deltas: list[Delta]
    failed: list[Failed]


class Deliverable(NamedTuple):
    """The two kinds of logprobs in a delta."""

    sampled: LogprobRows | None = None
    prompt: LogprobRows | None = None


NO_LOGPROBS = Deliverable()


def deliverable(request: Request, first: int, added: int, logprobs: RowLogprobs) -> Deliverable:
    """What of a row's logprobs to pass on: those of the tokens that were added, and those not sent before.

    first: position of the row's first token, so its prompt rows are those of tokens first + 1 and on.
    """
    sampled = cut(logprobs.sampled, 0, added) if logprobs.sampled and added else None
    prompt = unsent(request, first + 1, logprobs.prompt) if logprobs.prompt else None
    return Deliverable(sampled, prompt)


def unsent(request: Request, position: int, rows: LogprobRows) -> LogprobRows | None:
    """What of the prompt rows from `position` on was not sent; None when all was.

    A preempted request computes its prompt again, in other chunks; its client hears of each token once.
    """
    end = position + num_rows(rows)
    known = request.num_scored
    request.num_scored = max(known, end)
    return cut(rows, max(known - position, 0), end - position) if known < end else None


def num_rows(rows: LogprobRows) -> int:
    return len(rows.ranks) // ITEM_BYTES


def cut(rows: LogprobRows, first: int, end: int) -> LogprobRows:
    """Rows first .. end, exclusive. The usual case is all of them, and costs nothing."""
    if first == 0 and end >= num_rows(rows):
        return rows
    wide = rows.width * ITEM_BYTES
    return LogprobRows(
        width=rows.width,
        ids=rows.ids[first * wide : end * wide],
        values=rows.values[first * wide : end * wide],
        ranks=rows.ranks[first * ITEM_BYTES : end * ITEM_BYTES],
    )
