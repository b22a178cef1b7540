"""What the core asks of whatever runs the model. Implementations: engine/executors; a fake: tests/fakes."""

from __future__ import annotations

from typing import Protocol

from engine.wire.step import StepPlan, StepResult


class Executor(Protocol):
    """One trip out and one trip back per step."""

    def submit(self, plan: StepPlan) -> None:
        """Starts the step; at most one plan is in flight."""

    def collect(self) -> StepResult:
        """The result of the plan submitted last. Raises EngineFault when the model could not run it."""

    def close(self) -> None:
        """Lets the device and the workers go; safe to call twice."""
