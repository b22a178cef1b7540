"""The two calls on the scheduler that every step makes, with everybody decoding."""

from __future__ import annotations

from engine.base.clock import SystemClock
from engine.base.config import CacheConfig, SchedulerConfig
from engine.cache import KvCache
from engine.schedule import Scheduler
from engine.wire.request import Sampling, Submit
from engine.wire.step import StepPlan, StepResult
from engine.wire.tokens import pack_ints, unpack

MAX_LEN = 1 << 20


def answer(plan: StepPlan) -> StepResult:
    """A token for each row that draws one."""
    lengths = [int(draws) for draws in plan.sample]
    return StepResult(plan.step, pack_ints(lengths), pack_ints([7] * sum(lengths)))


class DecodeStep:
    """schedule and postprocess of one decode step."""

    version = "1"
    params = (1, 64, 512)
    param_names = ("rows",)

    def setup(self, rows: int) -> None:
        config = SchedulerConfig(max_num_seqs=rows, max_num_batched_tokens=16 * 1024, max_num_queued_reqs=rows + 1)
        cache = KvCache(CacheConfig(), MAX_LEN // 16)
        self.scheduler = Scheduler(config, cache, max_model_len=MAX_LEN, clock=SystemClock())
        for number in range(rows):
            prompt = pack_ints([number] * 16)
            self.scheduler.add(Submit(number + 1, 0, prompt, 16, Sampling(MAX_LEN - 64)))
        while any(count > 1 for count in unpack(self.step().counts)):
            pass

    def step(self) -> StepPlan:
        plan = self.scheduler.schedule()
        assert plan is not None
        self.scheduler.postprocess(answer(plan))
        return plan

    def time_step(self, rows: int) -> None:
        self.step()


class DeepQueue:
    """The same step of 64 rows with many waiting behind: must not cost more (law 5)."""

    version = "1"
    params = (0, 10_000)
    param_names = ("waiting",)

    def setup(self, waiting: int) -> None:
        rows = 64
        config = SchedulerConfig(max_num_seqs=rows, max_num_batched_tokens=16 * 1024, max_num_queued_reqs=1 << 20)
        cache = KvCache(CacheConfig(), MAX_LEN // 16)
        self.scheduler = Scheduler(config, cache, max_model_len=MAX_LEN, clock=SystemClock())
        for number in range(rows + waiting):
            self.scheduler.add(Submit(number + 1, 0, pack_ints([number] * 16), 16, Sampling(MAX_LEN - 64)))
        self.time_step(waiting)

    def time_step(self, waiting: int) -> None:
        plan = self.scheduler.schedule()
        assert plan is not None
        self.scheduler.postprocess(answer(plan))
