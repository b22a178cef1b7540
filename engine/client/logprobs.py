"""Log probabilities on their way out: columns on the wire, entries for people.

Owns slicing and joining of LogprobRows, and their reading as Python numbers. Knows no tokenizer.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.base.errors import EngineFault
from engine.wire.output import LogprobRows
from engine.wire.tokens import ITEM_BYTES, unpack

LOWEST = -9999.0


class TokenLogprob(NamedTuple):
    """One entry. logprob: natural log, may be -inf here; `finite` makes it -9999.0 at the JSON edge."""

    token_id: int
    logprob: float
    rank: int


class TokenRow(NamedTuple):
    """What one position was: its own token, and the alternatives, best first (the own token may be among them)."""

    chosen: TokenLogprob
    alternatives: tuple[TokenLogprob, ...]


def count_rows(columns: LogprobRows) -> int:
    """How many tokens the columns describe. Raises EngineFault when their sizes contradict each other."""
    cells, rest = divmod(len(columns.ids), ITEM_BYTES)
    num = len(columns.ranks) // ITEM_BYTES
    if rest or len(columns.values) != len(columns.ids) or num * columns.width != cells:
        raise EngineFault("log probabilities whose columns differ in length")
    return num


def slice_rows(columns: LogprobRows, start: int, stop: int) -> LogprobRows:
    """Rows start .. stop of the columns; 0 <= start <= stop <= number of rows."""
    row = columns.width * ITEM_BYTES
    return LogprobRows(
        columns.width,
        columns.ids[start * row : stop * row],
        columns.values[start * row : stop * row],
        columns.ranks[start * ITEM_BYTES : stop * ITEM_BYTES],
    )


def join_rows(parts: Sequence[LogprobRows]) -> LogprobRows | None:
    """All rows in order; None for no parts. Raises EngineFault when their widths differ."""
    if len(parts) <= 1:
        return parts[0] if parts else None
    if len({part.width for part in parts}) > 1:
        raise EngineFault("log probabilities of different widths in one stream")
    return LogprobRows(
        parts[0].width,
        b"".join([part.ids for part in parts]),
        b"".join([part.values for part in parts]),
        b"".join([part.ranks for part in parts]),
    )


def rows(columns: LogprobRows) -> Iterator[TokenRow]:
    """One TokenRow per token, aligned with the chunk's token_ids."""
    count_rows(columns)
    width, ids, values = columns.width, unpack(columns.ids), unpack_floats(columns.values)
    for position, rank in enumerate(unpack(columns.ranks)):
        cells = range(position * width, (position + 1) * width)
        chosen, *others = [(ids[cell], values[cell]) for cell in cells]
        yield TokenRow(
            TokenLogprob(*chosen, rank),
            tuple(TokenLogprob(*other, place) for place, other in enumerate(others, start=1)),
        )


def unpack_floats(data: bytes) -> array[float]:
    """float32 wire bytes -> a fresh array."""
    values = array("f")
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def finite(logprob: float) -> float:
    """-inf is -9999.0 in JSON, as in vLLM; no JSON number is NaN or infinite."""
    return logprob if logprob > LOWEST else LOWEST
