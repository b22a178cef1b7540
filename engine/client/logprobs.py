"""Log probabilities on their way out: columns on the wire, entries for people.

Owns slicing and joining of LogprobRows, and their reading as Python numbers. Knows no tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.wire.output import LogprobRows


class TokenLogprob(NamedTuple):
    """One entry. logprob: natural log, may be -inf here; `finite` makes it -9999.0 at the JSON edge."""

    token_id: int
    logprob: float
    rank: int


class TokenRow(NamedTuple):
    """What one position was: its own token, and the alternatives, best first (the own token may be among them)."""

    chosen: TokenLogprob
    alternatives: tuple[TokenLogprob, ...]


def rows(columns: LogprobRows) -> Iterator[TokenRow]:
    """One TokenRow per token, aligned with the chunk's token_ids."""
    raise NotImplementedError


def finite(logprob: float) -> float:
    """-inf is -9999.0 in JSON, as in vLLM; no JSON number is NaN or infinite."""
    return max(logprob, -9999.0)
