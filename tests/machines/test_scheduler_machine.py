"""The scheduler, driven in any order over a worker that checks every plan.

Whatever happens, each request ends once, with the answer that it would have had alone.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.schedule import Scheduler
from engine.schedule.request import State
from engine.wire.output import FinishReason
from engine.wire.request import Sampling, Submit
from engine.wire.tokens import count
from tests.fakes.scripted_engine import ScriptedEngine, Stream, submit
from tests.oracles.solo_answer import solo_answer

pytestmark = pytest.mark.timeout(400)
"""A failure is shrunk for up to five minutes before it is shown."""

MAX_MODEL_LEN = 24
BLOCK = 2
SALTS = ("", "a")

samplings = st.builds(
    Sampling,
    max_tokens=st.integers(0, 12),
    min_tokens=st.integers(0, 3),
    end_ids=st.sampled_from([(), (0,), (1, 2)]),
    logprobs=st.sampled_from([None, 0]),
    prompt_logprobs=st.sampled_from([None, None, 0]),
)
prompts = st.one_of(
    st.lists(st.integers(0, 1), min_size=1, max_size=MAX_MODEL_LEN + 1),
    st.builds(
        lambda start, tail: [0] * start + tail, st.integers(0, 20), st.lists(st.integers(0, 1), min_size=1, max_size=4)
    ),
)
"""Half of them begin alike."""


class SchedulerMachine(RuleBasedStateMachine):
    """Few blocks, few slots and a small budget, so that everything runs out all the time."""

    @initialize(
        num_blocks=st.integers(2, 16),
        num_slots=st.integers(1, 4),
        max_tokens=st.integers(4, 12),
        max_queued=st.sampled_from([2, 100]),
        policy=st.sampled_from(["fcfs", "priority"]),
        caching=st.booleans(),
    )
    def start(
        self, num_blocks: int, num_slots: int, max_tokens: int, max_queued: int, policy: str, caching: bool
    ) -> None:
        self.engine = ScriptedEngine(
            num_blocks=num_blocks,
            block_size=BLOCK,
            num_slots=num_slots,
            max_tokens=max_tokens,
            max_queued=max_queued,
            policy=policy,
            max_model_len=MAX_MODEL_LEN,
            caching=caching,
        )
        self.capacity = num_blocks * BLOCK
        self.max_queued = max_queued
        self.lost: set[int] = set()
        """Requests that abort, corruption or the end of the worker may have ended."""

    @property
    def scheduler(self) -> Scheduler:
        return self.engine.scheduler

    @property
    def living(self) -> list[int]:
        return [number for number, stream in self.engine.streams.items() if not stream.is_over]

    @rule(tokens=prompts, sampling=samplings, priority=st.integers(0, 2), salt=st.sampled_from(SALTS))
    def add(self, tokens: list[int], sampling: Sampling, priority: int, salt: str) -> None:
        number = len(self.engine.streams) + 1
        self.enter(submit(number, tokens, sampling=sampling, priority=priority, cache_salt=salt))

    @rule(tokens=prompts, sampling=samplings, copies=st.integers(2, 4))
    def add_siblings(self, tokens: list[int], sampling: Sampling, copies: int) -> None:
        leader = len(self.engine.streams) + 1
        for number in range(leader, leader + copies):
            self.enter(submit(number, tokens, sampling=sampling, leader=0 if number == leader else leader))

    @rule(tokens=prompts, num_known=st.integers(1, 4), sampling=samplings, arrival=st.integers(0, 100))
    def resume(self, tokens: list[int], num_known: int, sampling: Sampling, arrival: int) -> None:
        number = len(self.engine.streams) + 1
        num_prompt = max(1, len(tokens) - num_known)
        self.enter(submit(number, tokens, num_prompt=num_prompt, sampling=sampling, arrival=float(arrival)))

    def enter(self, message: Submit) -> None:
        num_waiting = self.scheduler.stats().waiting
        stream = self.engine.add(message)
        if stream.failed is not None and stream.failed.status == 503:
            assert num_waiting >= self.max_queued and stream.failed.retry_after_s >= 1
        elif stream.failed is not None:
            assert stream.failed.status == 400
            no_room = message.num_prompt + min(message.sampling.max_tokens, 1) > MAX_MODEL_LEN
            assert no_room or count(message.tokens) > min(self.capacity, MAX_MODEL_LEN)

    @rule(data=st.data())
    @precondition(lambda self: self.living)
    def abort(self, data: st.DataObject) -> None:
        doomed = data.draw(st.lists(st.sampled_from(self.living), max_size=3))
        self.lost.update(doomed)
        self.engine.abort(*doomed, 10_000)
        assert all(self.engine.streams[number].finish is FinishReason.ABORT for number in doomed)

    @rule(steps=st.integers(1, 3))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.engine.step()

    @rule(data=st.data())
    @precondition(lambda self: self.living)
    def abort_in_flight(self, data: st.DataObject) -> None:
        plan = self.scheduler.schedule()
        result = self.engine.worker.run(plan)
        doomed = data.draw(st.lists(st.sampled_from(self.living), min_size=1, max_size=2))
        self.lost.update(doomed)
        self.engine.abort(*doomed)
        self.engine.hear(self.scheduler.postprocess(result))

    @rule(data=st.data())
    @precondition(lambda self: self.living)
    def corrupt(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.living))
        self.lost.add(number)
        self.engine.worker.corrupt.add(number)

    @rule()
    def reset_prefix_cache(self) -> None:
        running = self.scheduler.stats().running
        assert self.scheduler.reset_prefix_cache() == (running == 0)

    @rule()
    @precondition(lambda self: len(self.living) > 3)
    def lose_everybody(self) -> None:
        self.lost.update(self.living)
        self.engine.hear(self.scheduler.fail_all("the worker is lost", status=500))
        self.engine.assert_idle()

    @invariant()
    def everybody_stands_in_one_place(self) -> None:
        roster = self.scheduler.roster
        running = list(roster.running)
        waiting = list(roster.waiting.members.values())
        parked = [request for followers in roster.siblings.followers.values() for request in followers.values()]
        assert Counter(request.id for request in [*running, *waiting, *parked]) == Counter(self.living)
        assert set(roster.requests) == set(self.living)
        assert all(request.state is State.RUNNING for request in running)
        assert all(request.state is State.WAITING and not request.table.blocks for request in [*waiting, *parked])
        assert all(request.leader in roster.requests for request in parked)
        assert [request.key for request in running] == sorted(request.key for request in running)

    @invariant()
    def slots_and_blocks_are_conserved(self) -> None:
        roster, pool = self.scheduler.roster, self.engine.cache.pool
        slots = [request.slot for request in roster.running] + roster.running.free_slots
        assert sorted(slots) == list(range(self.engine.worker.num_slots))
        holders = Counter(block for request in roster.running for block in request.table.blocks)
        assert list(pool.refs) == [holders[block] for block in range(pool.num_blocks)]
        assert sorted([*pool.free, *pool.idle, *holders]) == list(range(pool.num_blocks))

    @invariant()
    def counters_agree_with_what_was_told(self) -> None:
        stats, streams = self.scheduler.stats(), self.engine.streams.values()
        assert stats.generation_tokens == sum(len(stream.tokens) for stream in streams)
        assert stats.rejected == sum(stream.failed is not None and stream.failed.status == 503 for stream in streams)
        assert stats.waiting + stats.running == len(self.living)

    def teardown(self) -> None:
        draws = sum(stream.submit.sampling.max_tokens for stream in self.engine.streams.values())
        self.engine.run(max_steps=100 + 10 * draws)
        self.engine.assert_idle()
        for stream in self.engine.streams.values():
            self.check_answer(stream)

    def check_answer(self, stream: Stream) -> None:
        answer, finish = solo_answer(stream.submit, MAX_MODEL_LEN)
        if stream.failed is None and stream.finish is not FinishReason.ABORT:
            assert (stream.tokens, stream.finish) == (answer, finish), "the answer is the one it would have had alone"
            self.check_logprobs(stream)
            return
        assert stream.tokens == answer[: len(stream.tokens)]
        known = count(stream.submit.tokens) + len(stream.tokens)
        refused = not stream.deltas and stream.failed is not None
        assert stream.submit.request in self.lost or refused or known > self.capacity, "nobody ends without a reason"

    def check_logprobs(self, stream: Stream) -> None:
        """One row for each token that asked for one, in order, once: the fake worker ranks a token by its position."""
        sampling, num_prompt = stream.submit.sampling, stream.submit.num_prompt
        start, known = count(stream.submit.tokens), count(stream.submit.tokens) + len(stream.tokens)
        prompt = range(1, num_prompt) if sampling.prompt_logprobs is not None else ()
        answer = range(start, known) if sampling.logprobs is not None else ()
        if stream.tokens:
            assert stream.scored == [*prompt, *answer]


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(settings(), max_examples=60, stateful_step_count=30)
