"""Answers of the offline LLM, in vLLM's shape. Public; plain values that can be printed, compared and stored.

Knows how columns become entries; knows no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from engine.client.logprobs import rows
from engine.wire.chunk import Chunk
from engine.wire.output import LogprobRows


class Logprob(Struct):
    """logprob: natural log, may be -inf. rank: 1 is the likeliest. decoded_token: the token's text alone."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


Entry = dict[int, Logprob]
"""Token id -> its log probability: the token of the position first, then the alternatives, best first."""


class CompletionOutput(Struct):
    """One answer. finish_reason: "stop", "length" or "abort". stop_reason: the stop string or stop token id."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None = None
    logprobs: list[Entry] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None

    def finished(self) -> bool:
        return self.finish_reason is not None


class RequestOutput(Struct):
    """One prompt and its n answers. prompt_logprobs: None for the first prompt token, which has none."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool = True
    prompt_logprobs: list[Entry | None] | None = None
    num_cached_tokens: int = 0


TokenText = Callable[[int], str]


def completion_output(chunk: Chunk, token_text: TokenText | None) -> CompletionOutput:
    """The answer that one sibling's whole stream is. token_text None: nobody decodes."""
    columns = chunk.logprobs
    return CompletionOutput(
        chunk.index,
        chunk.text or "",
        chunk.token_ids.tolist(),
        None if columns is None else sum(row.chosen.logprob for row in rows(columns)),
        None if columns is None else list(entries_of(columns, token_text)),
        chunk.finish_reason,
        chunk.stop_reason,
    )


def prompt_entries(columns: LogprobRows | None, token_text: TokenText | None) -> list[Entry | None] | None:
    return None if columns is None else [None, *entries_of(columns, token_text)]


def entries_of(columns: LogprobRows, token_text: TokenText | None) -> Iterator[Entry]:
    for row in rows(columns):
        # An alternative that is the token itself says the same once more.
        found = {entry.token_id: entry for entry in (*row.alternatives, row.chosen)}
        order = dict.fromkeys([row.chosen.token_id, *found])
        yield {
            token: Logprob(found[token].logprob, found[token].rank, token_text(token) if token_text else None)
            for token in order
        }
