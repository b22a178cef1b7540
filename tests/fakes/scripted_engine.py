"""Scheduler, cache and scripted worker, stepped by hand; each stream is checked as a client would read it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from engine.base.config import CacheConfig, SchedulerConfig
from engine.cache import KvCache
from engine.schedule import Outputs, Scheduler
from engine.wire.output import Delta, Failed, FinishReason
from engine.wire.request import Sampling, Submit
from engine.wire.tokens import pack_ints, unpack
from tests.fakes.manual_clock import ManualClock
from tests.fakes.scripted_worker import ScriptedWorker


def submit(
    request: int,
    tokens: Iterable[int],
    *,
    num_prompt: int | None = None,
    sampling: Sampling | None = None,
    **others: object,
) -> Submit:
    """A Submit of these tokens, all of them prompt unless told otherwise; 4 tokens of answer by default."""
    known = array("i", tokens)
    return Submit(
        request=request,
        attempt=1,
        tokens=pack_ints(known),
        num_prompt=len(known) if num_prompt is None else num_prompt,
        sampling=sampling or Sampling(max_tokens=4),
        **{"arrival": float(request), **others},
    )


class Stream:
    """What a client has of one request. Two terminal outputs, a gap or a repeat fail the test."""

    def __init__(self, submit: Submit) -> None:
        self.submit = submit
        self.next_start = len(unpack(submit.tokens)) - submit.num_prompt
        self.tokens: list[int] = []
        self.deltas: list[Delta] = []
        self.finish: FinishReason | None = None
        self.failed: Failed | None = None
        self.scored: list[int] = []
        """Positions of the tokens whose logprobs came, prompt and answer alike."""

    @property
    def is_over(self) -> bool:
        return self.finish is not None or self.failed is not None

    @property
    def num_cached(self) -> int:
        return self.deltas[0].num_cached

    def put(self, delta: Delta) -> None:
        assert not self.is_over, "a word after the last one"
        assert delta.attempt == self.submit.attempt
        assert delta.start == self.next_start, "a gap, or a repeat"
        assert delta.num_cached == 0 or not self.deltas, "only the first delta tells of the cache"
        tokens = unpack(delta.tokens)
        self.next_start += len(tokens)
        self.tokens.extend(tokens)
        self.deltas.append(delta)
        self.finish = delta.finish
        for rows in (delta.prompt_logprobs, delta.logprobs):
            self.scored.extend(unpack(rows.ranks) if rows else [])

    def fail(self, failed: Failed) -> None:
        assert not self.is_over, "a word after the last one"
        self.failed = failed


class ScriptedEngine:
    """One core of num_blocks blocks of block_size tokens."""

    def __init__(
        self,
        *,
        num_blocks: int = 64,
        block_size: int = 4,
        num_slots: int = 8,
        max_tokens: int = 64,
        max_queued: int = 1024,
        policy: str = "fcfs",
        max_model_len: int = 256,
        caching: bool = True,
    ) -> None:
        self.cache = KvCache(CacheConfig(block_size=block_size, enable_prefix_caching=caching), num_blocks)
        self.clock = ManualClock()
        config = SchedulerConfig(
            max_num_seqs=num_slots,
            max_num_batched_tokens=max_tokens,
            scheduling_policy=policy,
            max_num_queued_reqs=max_queued,
        )
        self.max_model_len = max_model_len
        self.scheduler = Scheduler(config, self.cache, max_model_len=max_model_len, clock=self.clock)
        self.worker = ScriptedWorker(num_slots, num_blocks, block_size, max_tokens)
        self.streams: dict[int, Stream] = {}

    def add(self, submit: Submit) -> Stream:
        stream = self.streams[submit.request] = Stream(submit)
        self.worker.salts[submit.request] = submit.cache_salt
        self.hear(self.scheduler.add(submit))
        return stream

    def abort(self, *requests: int) -> None:
        self.hear(self.scheduler.abort(requests))

    def step(self) -> bool:
        """One step; False when there was nothing to run."""
        plan = self.scheduler.schedule()
        if plan is None:
            return False
        self.hear(self.scheduler.postprocess(self.worker.run(plan)))
        return True

    def run(self, max_steps: int = 10_000) -> None:
        """Steps until nobody is left; fails the test when that takes too long."""
        for _ in range(max_steps):
            if not self.step():
                return
        raise AssertionError(f"somebody is left after {max_steps} steps")

    def hear(self, outputs: Outputs) -> None:
        for delta in outputs.deltas:
            self.streams[delta.request].put(delta)
        for failed in outputs.failed:
            self.streams[failed.request].fail(failed)

    def assert_idle(self) -> None:
        """Nothing is held, and nobody is remembered."""
        roster, pool = self.scheduler.roster, self.cache.pool
        assert self.scheduler.is_idle
        assert not roster.requests and not len(roster.running) and not roster.num_waiting
        assert not roster.siblings.followers
        assert len(roster.running.free_slots) == self.worker.num_slots
        assert pool.num_held == 0 and not any(pool.refs)
        assert all(stream.is_over for stream in self.streams.values())
