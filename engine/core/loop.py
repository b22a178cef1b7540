"""The engine core: how requests become tokens, one step at a time.

Owns the order of things. Knows nothing of models, sockets or HTTP.
"""

from __future__ import annotations

from engine.base.clock import Clock
from engine.base.errors import EngineFault
from engine.core.executor_port import Executor
from engine.core.inbox import Inbox, Method
from engine.core.outbox import HEARTBEAT_S, Outbox
from engine.schedule import Scheduler
from engine.wire.channel import CoreEnd
from engine.wire.methods import CORE_METHODS
from engine.wire.output import Ready, StepTimes, Stopped
from engine.wire.tokens import unpack


class EngineCore:
    """One scheduler, one executor, and the clients they work for."""

    def __init__(
        self, scheduler: Scheduler, executor: Executor, end: CoreEnd, clock: Clock, *, num_api_servers: int = 1
    ) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.clock = clock
        self.epoch = 0
        self.outbox = Outbox(end, num_api_servers, self.epoch, clock)
        self.inbox = Inbox(end, scheduler, self.outbox, self.methods())

    def run(self, ready: Ready) -> None:
        """Serves until the process is told to end. Whoever still waits then learns why."""
        self.outbox.broadcast(ready)
        try:
            while True:
                self.turn(HEARTBEAT_S)
        except BaseException as end:  # The edge of the process: whatever ended the loop, nobody is left waiting.
            self.outbox.broadcast(Stopped(self.epoch, reason_of(end)))
            raise
        finally:
            self.executor.close()

    def close(self) -> None:
        """Lets the model go; for a core that nobody runs in a process of its own."""
        self.executor.close()

    def turn(self, idle_wait_s: float) -> None:
        """Takes what has come, runs one step, sends what it gave. Waits only when there is nothing to run."""
        self.inbox.take(idle_wait_s if self.scheduler.is_idle else 0.0)
        times = self.step()
        self.outbox.flush(self.scheduler.stats(), times)

    def step(self) -> StepTimes:
        """One trip to the model and back."""
        started = self.clock.now()
        plan = self.scheduler.schedule()
        if plan is None:
            return StepTimes()
        scheduled = self.clock.now()
        self.executor.submit(plan)
        result = self.executor.collect()
        self.outbox.put(self.scheduler.postprocess(result))
        rows = sum(unpack(plan.counts))
        return StepTimes(scheduled - started, result.forward_s, result.sample_s, rows)

    def methods(self) -> dict[str, Method]:
        table: dict[str, Method] = {"ping": lambda _: b"", "reset_prefix_cache": self.reset_prefix_cache}
        assert set(table) == set(CORE_METHODS), "wire.methods and core.loop disagree"
        return table

    def reset_prefix_cache(self, payload: bytes) -> bytes:
        """Answers b"1", or b"0" when running sequences hold cached blocks."""
        del payload
        return b"1" if self.scheduler.reset_prefix_cache() else b"0"


def reason_of(end: BaseException) -> str:
    """What clients are told. A fault's text stays in the log: it may name files and memory of this machine."""
    if isinstance(end, SystemExit):
        return "the engine is shutting down"
    if isinstance(end, EngineFault):
        return f"the model could not run: {end}"
    return "the engine core ended unexpectedly"
