"""The model runs inside the core's process: same code as a worker process, no IPC."""

from __future__ import annotations

from engine.base.errors import EngineFault
from engine.wire.step import StepPlan, StepResult
from engine.worker.runner import ModelRunner


class InlineExecutor:
    """Implements core.executor_port.Executor over a runner of this process."""

    def __init__(self, runner: ModelRunner) -> None:
        self.runner: ModelRunner | None = runner
        self.plan: StepPlan | None = None

    def submit(self, plan: StepPlan) -> None:
        assert self.plan is None, "a plan is in flight already"
        self.plan = plan

    def collect(self) -> StepResult:
        assert self.plan is not None and self.runner is not None
        plan, self.plan = self.plan, None
        try:
            return self.runner.execute(plan)
        except RuntimeError as error:  # What torch raises for everything that a device can do wrong.
            raise EngineFault(f"step {plan.step} failed in the model") from error

    def close(self) -> None:
        self.runner = None
