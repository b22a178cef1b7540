"""What a worker process serves: the methods of the table, over a runner that `initialise` makes.

Owns when each may be called. Knows no socket.
"""

from __future__ import annotations

from engine.base.clock import Clock
from engine.base.errors import EngineFault
from engine.wire.step import StepPlan, StepResult
from engine.wire.worker import WorkerReady
from engine.worker.build import build_runner
from engine.worker.methods import EXECUTE, INITIALISE, RESET, SHUTDOWN, STATS, Initialise, WorkerStats
from engine.worker.rpc import Methods
from engine.worker.runner import ModelRunner


class Worker:
    """One model, initialised once. A call before that is an EngineFault."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.loaded: ModelRunner | None = None

    def methods(self) -> Methods:
        return {
            INITIALISE.name: self.initialise,
            EXECUTE.name: self.execute,
            RESET.name: lambda _: self.reset(),
            STATS.name: lambda _: self.stats(),
            SHUTDOWN.name: lambda _: self.shutdown(),
        }

    def initialise(self, asked: Initialise) -> WorkerReady:
        """Loads the model. Raises ConfigError or ModelFileError when it cannot be served."""
        if self.loaded is not None:
            raise EngineFault("the worker is initialised already")
        self.loaded, ready = build_runner(asked.model, asked.cache, asked.scheduler, asked.parallel, self.clock)
        return ready

    def execute(self, plan: StepPlan) -> StepResult:
        return self.runner().execute(plan)

    def reset(self) -> None:
        """Forgets every sequence."""
        self.runner().reset()

    def stats(self) -> WorkerStats:
        return self.runner().stats()

    def shutdown(self) -> None:
        """Lets the model and its cache go; the process ends after the reply."""
        self.loaded = None

    def runner(self) -> ModelRunner:
        if self.loaded is None:
            raise EngineFault("the worker is not initialised")
        return self.loaded
