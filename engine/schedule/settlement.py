"""What a row of a result, or the end of a request, means: for its tokens, its blocks and its client.

Owns the way out: each request has its terminal output here, once. Knows nothing of plans.
"""

from __future__ import annotations

from array import array

from msgspec import Struct

from engine.cache import KvCache
from engine.schedule.admission import Door
from engine.schedule.finish import append, dead_end
from engine.schedule.outputs import NO_LOGPROBS, Outputs, deliverable
from engine.schedule.request import Request
from engine.schedule.roster import Roster
from engine.wire.output import Failed, FinishReason
from engine.wire.step import RowLogprobs
from engine.wire.tokens import pack

CORRUPTED = "the logits held no number"


class Counters(Struct, gc=False):
    """They only grow. prompt_tokens: of prompts whose answer has begun, each counted once."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    corrupted: int = 0


class Settlement:
    """Collects what clients are to be told, until take_outputs."""

    def __init__(self, roster: Roster, cache: KvCache, door: Door) -> None:
        self.roster = roster
        self.cache = cache
        self.door = door
        self.outputs = Outputs([], [])
        self.counters = Counters()

    def advance(self, request: Request, count: int, drawn: array[int], logprobs: RowLogprobs | None) -> None:
        """A row of `count` tokens was computed, and the `drawn` ones came of it."""
        first, start = request.computed, request.num_output
        request.computed += count
        self.cache.publish(request.table, request.computed)
        self.roster.note_computed(request)
        added, finish = append(request, drawn)
        sampled, prompt = deliverable(request, first, added, logprobs) if logprobs is not None else NO_LOGPROBS
        if added or finish is not None or prompt is not None:
            delta = request.delta(start, pack(drawn[:added]), finish, sampled, prompt)
            self.outputs.deltas.append(delta)
        self.counters.generation_tokens += added
        if added and start == 0:
            self.counters.prompt_tokens += request.num_prompt
        if finish is not None:
            self.end(request)
        elif (fault := dead_end(request, self.cache.capacity)) is not None:
            self.fail(request, *fault)

    def discard(self, request: Request) -> None:
        """Its logits held no number: its blocks are not to be trusted, and nobody is given them from now on."""
        self.counters.corrupted += 1
        self.cache.withdraw(request.table)
        self.fail(request, CORRUPTED, 500)

    def finish(self, request: Request, reason: FinishReason) -> None:
        """It ends without a new token."""
        self.outputs.deltas.append(request.delta(request.num_output, b"", reason))
        self.end(request)

    def fail(self, request: Request, message: str, status: int) -> None:
        self.refuse(Failed(request.id, request.attempt, message, status))
        self.end(request)

    def refuse(self, failed: Failed) -> None:
        """A request ends that was never let in."""
        self.outputs.failed.append(failed)

    def end(self, request: Request) -> None:
        self.roster.end(request)
        self.door.note_departure()

    def take_outputs(self) -> Outputs:
        """What there is to tell since the last time."""
        outputs, self.outputs = self.outputs, Outputs([], [])
        return outputs
