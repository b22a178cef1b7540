"""core -> worker -> core: one plan out and one result back per step.

Fields of a plan are int32 wire bytes: its size grows with the rows that change, never with their history.
"""

from __future__ import annotations

from msgspec import Struct

from engine.wire.output import LogprobRows
from engine.wire.request import Sampling


class Admit(Struct, frozen=True, gc=False, array_like=True):
    """A sequence takes a slot of the worker. Sent once; the worker keeps the tokens from here on.

    tokens: int32 wire bytes, prompt plus answer so far. computed: how many already stand in shared KV blocks.
    blocks: int32 wire bytes, the blocks it holds now; later ones come in StepPlan.new_blocks.
    """

    slot: int
    request: int
    attempt: int
    tokens: bytes
    num_prompt: int
    computed: int
    sampling: Sampling
    blocks: bytes


class StepPlan(Struct, frozen=True, array_like=True, tag="plan"):
    """core -> worker. Row r runs tokens starts[r] .. starts[r] + counts[r] of the sequence in slots[r].

    release: int32[k], slots to forget, before anything else. admit: new sequences, after that.
    new_blocks: int32[k, 2], (slot, block), appended to the slot's table in order.
    sample: uint8[R], 1 where the row reaches the end of its known tokens and a token is drawn.
    """

    step: int
    release: bytes
    admit: list[Admit]
    new_blocks: bytes
    slots: bytes
    counts: bytes
    starts: bytes
    sample: bytes


class RowLogprobs(Struct, frozen=True, gc=False, array_like=True):
    """The log probabilities that row `row` of the plan asked for."""

    row: int
    sampled: LogprobRows | None = None
    prompt: LogprobRows | None = None


class StepResult(Struct, frozen=True, array_like=True, tag="result"):
    """worker -> core. Row order is the plan's.

    lengths: int32[R], tokens drawn for each row (0 or 1; more with drafts). tokens: int32[sum(lengths)].
    corrupted: int32[k], rows whose logits held no number: no token was drawn, and their KV is not to be shared.
    """

    step: int
    lengths: bytes
    tokens: bytes
    corrupted: bytes = b""
    logprobs: list[RowLogprobs] = []
    forward_s: float = 0.0
    sample_s: float = 0.0
