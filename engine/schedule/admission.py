"""Who may enter the queue: what can never run is refused at once, and so is what there is no room for.

Knows nothing of blocks and slots. The other door, from the queue into a step, is Scheduler.admit_waiting.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from engine.base.clock import Clock
from engine.schedule.roster import Roster
from engine.wire.output import Failed
from engine.wire.request import Submit
from engine.wire.tokens import count

MAX_RETRY_AFTER_S = 60


class Limits(NamedTuple):
    """max_queued: requests that may wait. context, capacity: tokens of a sequence that the model, the cache hold."""

    max_queued: int
    context: int
    capacity: int


class Door:
    """Lets requests into a roster."""

    def __init__(self, limits: Limits, roster: Roster, clock: Clock) -> None:
        self.limits = limits
        self.roster = roster
        self.clock = clock
        self.interval_s = 1.0
        self.last_departure = clock.now()
        self.num_rejected = 0

    def refusal(self, submit: Submit) -> Failed | None:
        """Why this request cannot enter; None when it can. What will never fit is not told to try again."""
        if (reason := self.misfit(submit)) is not None:
            return Failed(submit.request, submit.attempt, reason, status=400)
        if submit.request in self.roster.requests:
            return Failed(submit.request, submit.attempt, f"request {submit.request} is here already", status=500)
        if self.roster.num_waiting >= self.limits.max_queued:
            self.num_rejected += 1
            reason = f"the queue is full: {self.roster.num_waiting} requests wait"
            return Failed(submit.request, submit.attempt, reason, status=503, retry_after_s=self.retry_after_s)
        return None

    def misfit(self, submit: Submit) -> str | None:
        num_tokens, context = count(submit.tokens), self.limits.context
        if not 0 < submit.num_prompt <= num_tokens:
            return "a request needs at least one prompt token"
        if max(num_tokens, submit.num_prompt + min(submit.sampling.max_tokens, 1)) > context:
            return f"{num_tokens} tokens leave no room for an answer in a context of {context}"
        if num_tokens > self.limits.capacity:
            return f"{num_tokens} tokens do not fit in the KV cache, which holds {self.limits.capacity}"
        return None

    def note_departure(self) -> None:
        """A request has ended; the pace of that tells how soon a place in the queue comes free."""
        now = self.clock.now()
        self.interval_s += 0.1 * (now - self.last_departure - self.interval_s)
        self.last_departure = now

    @property
    def retry_after_s(self) -> int:
        """Seconds until about one more request will have ended: at least 1, at most a minute."""
        return min(max(ceil(self.interval_s), 1), MAX_RETRY_AFTER_S)
