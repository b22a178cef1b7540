"""core -> client: one message a step with every stream's new tokens, and how requests ended."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct


class FinishReason(IntEnum):
    """Why a request ended well. The frontends map these to the public words in one table."""

    END = 1
    """An end id was drawn (it is the last token of the answer)."""
    LENGTH = 2
    """max_tokens, or the context, is used up."""
    ABORT = 3
    """The client asked to stop, or is gone."""


class LogprobRows(Struct, frozen=True, gc=False, array_like=True):
    """Log probabilities of a run of tokens, as columns. Natural log of the raw distribution (before temperature).

    width: entries per token; column 0 is the token itself, then the best alternatives, best first.
    ids: int32[n, width]; values: float32[n, width]; ranks: int32[n], the token's own rank, 1 is the best.
    """

    width: int
    ids: bytes
    values: bytes
    ranks: bytes


class Delta(Struct, frozen=True, gc=False, array_like=True):
    """A stream's new tokens in one step. `start` is the position of the first in the answer, so that a repeat is
    dropped and a gap is seen. A finish reason makes it the request's terminal output."""

    request: int
    attempt: int
    start: int
    tokens: bytes
    finish: FinishReason | None = None
    num_cached: int = 0
    """Prompt tokens found in the prefix cache; on the first delta only."""
    logprobs: LogprobRows | None = None
    prompt_logprobs: LogprobRows | None = None
    """Rows of prompt tokens 1.. (the first has none); may come in pieces, before the first token."""


class Failed(Struct, frozen=True, gc=False, array_like=True):
    """The terminal output of a request that did not end well."""

    request: int
    attempt: int
    message: str
    status: int = 500
    """503: no capacity, try later. 500: a fault of ours. 400: it can never fit."""
    retry_after_s: int = 0


class CoreStats(Struct, frozen=True, gc=False, array_like=True):
    """What a core is doing, after the step it came with. Counters only grow within an epoch."""

    running: int = 0
    waiting: int = 0
    blocks_used: int = 0
    blocks_total: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    """Queries and hits in tokens."""
    rejected: int = 0
    """Requests refused for want of room in the queue."""
    corrupted: int = 0
    """Requests failed because their logits held no number."""


class StepTimes(Struct, frozen=True, gc=False, array_like=True):
    """Seconds that the parts of one step took."""

    schedule_s: float = 0.0
    forward_s: float = 0.0
    sample_s: float = 0.0
    rows: int = 0
    """Query tokens in the step."""


class Ready(Struct, frozen=True, array_like=True, tag="ready"):
    """core -> client, once: the core serves from now on."""

    epoch: int
    pid: int
    max_model_len: int
    num_blocks: int
    block_size: int
    chosen: dict[str, str] = {}
    """What was chosen automatically, and why: printed at start."""


class StepOutput(Struct, frozen=True, array_like=True, tag="step"):
    """core -> client, once a step that has something to say, and once a second when idle (a heartbeat)."""

    epoch: int
    step: int
    deltas: list[Delta]
    failed: list[Failed]
    stats: CoreStats
    times: StepTimes = StepTimes()


class Reply(Struct, frozen=True, gc=False, array_like=True, tag="reply"):
    """core -> client: what a Call returned, or why it failed."""

    call: int
    payload: bytes = b""
    error: str | None = None


class Stopped(Struct, frozen=True, gc=False, array_like=True, tag="stopped"):
    """core -> client: the core ends now, for this reason; whoever still waits has an error."""

    epoch: int
    reason: str


FromCore = Ready | StepOutput | Reply | Stopped
