"""One step after the other: who runs in it, and what comes of its result.

Owns the turns of schedule and postprocess. Knows no worker, no socket and no text.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from engine.base.clock import Clock
from engine.base.config import SchedulerConfig
from engine.cache import KvCache
from engine.schedule.admission import Door, Limits
from engine.schedule.budget import Budget
from engine.schedule.draft import Draft
from engine.schedule.outputs import Outputs
from engine.schedule.policy import POLICIES
from engine.schedule.preemption import Preemption
from engine.schedule.request import Request, State
from engine.schedule.roster import Roster
from engine.schedule.settlement import Settlement
from engine.wire.output import CoreStats, FinishReason
from engine.wire.request import Submit
from engine.wire.step import StepPlan, StepResult
from engine.wire.tokens import unpack


class Scheduler:
    """Every add ends in exactly one terminal output: a Delta with a finish reason, or a Failed.

    schedule and postprocess take turns; add and abort may come at any time. Nothing here costs more for a longer
    queue than the logarithm of its length.
    """

    def __init__(self, config: SchedulerConfig, cache: KvCache, *, max_model_len: int, clock: Clock) -> None:
        self.config = config
        self.cache = cache
        self.max_model_len = max_model_len
        self.place = POLICIES[config.scheduling_policy]
        self.numbers = count()
        self.roster = Roster(cache, config.max_num_seqs)
        self.preemption = Preemption(self.roster, cache)
        self.door = Door(Limits(config.max_num_queued_reqs, max_model_len, cache.capacity), self.roster, clock)
        self.settlement = Settlement(self.roster, cache, self.door)
        self.in_flight: Draft | None = None
        self.steps = 0

    @property
    def is_idle(self) -> bool:
        """Nobody waits and nobody runs."""
        return not self.roster.requests

    def add(self, submit: Submit) -> Outputs:
        """A request enters the queue. It ends at once when it cannot enter, or has nothing left to do."""
        if (refusal := self.door.refusal(submit)) is not None:
            self.settlement.refuse(refusal)
            return self.settlement.take_outputs()
        request = Request(submit, self.place(submit, next(self.numbers)), self.cache, self.max_model_len)
        self.roster.line_up(request)
        if request.is_full_length and request.may_reuse:
            self.settlement.finish(request, FinishReason.LENGTH)
        return self.settlement.take_outputs()

    def abort(self, requests: Iterable[int]) -> Outputs:
        """Each known one ends now with reason ABORT. A row that it has in flight is ignored when it comes back."""
        for number in requests:
            if (request := self.roster.requests.get(number)) is not None:
                self.settlement.finish(request, FinishReason.ABORT)
        return self.settlement.take_outputs()

    def fail_all(self, message: str, status: int = 503) -> Outputs:
        """Everybody ends, for one reason: the worker is lost, or the core stops. What is in flight is forgotten."""
        self.in_flight = None
        for request in list(self.roster.requests.values()):
            self.settlement.fail(request, message, status)
        return self.settlement.take_outputs()

    def schedule(self) -> StepPlan | None:
        """The next step: whoever runs goes on, then whoever waits comes in. None when there is nobody."""
        assert self.in_flight is None, "a plan is in flight: its result comes first"
        budget = Budget(self.config.max_num_batched_tokens)
        draft = Draft(self.steps + 1)
        self.continue_running(budget, draft)
        self.admit_waiting(budget, draft)
        return self.send(draft)

    def continue_running(self, budget: Budget, draft: Draft) -> None:
        """In policy order each running request gets its uncomputed tokens, as far as the budget goes.

        Preemption takes from the end of that order, so never from a request that has its row.
        """
        for request in self.roster.running:
            if budget.is_spent:
                return
            if request.lacks_blocks:
                blocks = self.preemption.find_blocks(request)
                if blocks is None:
                    return
                draft.extend(request.slot, blocks)
            draft.run(request, budget.take(request.num_uncomputed))

    def admit_waiting(self, budget: Budget, draft: Draft) -> None:
        """The head of the queue enters while budget, slots and blocks last. Nobody overtakes it when it does not fit.

        So a large request waits until the running ones leave it enough blocks, however many small ones come.
        """
        roster = self.roster
        while not budget.is_spent and roster.running.has_slot and (head := roster.waiting.head()) is not None:
            if not roster.start(head):
                return
            draft.admit(head)
            draft.run(head, budget.take(head.num_uncomputed))

    def send(self, draft: Draft) -> StepPlan | None:
        if not draft.requests:
            assert self.is_idle, "somebody waits, and nobody runs"
            return None
        self.in_flight = draft
        self.steps = draft.step
        return draft.draw_up(self.roster.running.take_released())

    def postprocess(self, result: StepResult) -> Outputs:
        """What the step computed counts from now on: blocks are shared, tokens go out, the finished leave.

        Raises EngineFault when the result does not answer the plan in flight.
        """
        assert self.in_flight is not None, "no plan is in flight"
        draft, self.in_flight = self.in_flight, None
        corrupted = frozenset(unpack(result.corrupted))
        logprobs = {entry.row: entry for entry in result.logprobs}
        for row, request, computed, drawn in draft.match(result):
            if request.state is not State.RUNNING:
                continue
            if row in corrupted:
                self.settlement.discard(request)
            else:
                self.settlement.advance(request, computed, drawn, logprobs.get(row))
        return self.settlement.take_outputs()

    def reset_prefix_cache(self) -> bool:
        """Forgets all shared blocks. False, and nothing changes, while a request runs."""
        return self.cache.reset_prefix_cache()

    def stats(self) -> CoreStats:
        cache, counters = self.cache.stats(), self.settlement.counters
        return CoreStats(
            running=len(self.roster.running),
            waiting=self.roster.num_waiting,
            blocks_used=cache.blocks_used,
            blocks_total=cache.blocks_total,
            steps=self.steps,
            prompt_tokens=counters.prompt_tokens,
            generation_tokens=counters.generation_tokens,
            preemptions=self.preemption.count,
            prefix_queries=cache.prefix_queries,
            prefix_hits=cache.prefix_hits,
            rejected=self.door.num_rejected,
            corrupted=counters.corrupted,
        )
