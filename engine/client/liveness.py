"""Is the core alive and moving? Decided from its heartbeats and from what the operating system says of it.

Knows no HTTP status and kills nobody.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from engine.base.clock import Clock
from engine.process.inspect import ProcessState
from engine.wire.output import CoreStats

LONGEST_STEP_S = 600.0
"""A core that says nothing but computes is in a long step, up to here; then it is taken to be in an endless one."""


class Health(Struct, frozen=True):
    """state: "starting", "healthy", "stalled" or "dead"; only "healthy" is ready for work (200, otherwise 503)."""

    state: str
    reason: str = ""

    @property
    def is_healthy(self) -> bool:
        return self.state == "healthy"


HEALTHY = Health("healthy")


class Liveness:
    """Watches one core. `sample` once a second or so, `heard` for each of its messages, `check` whenever asked.

    process_state: the core's state now, None where there is no such process (or nothing can be known: no /proc).
    """

    def __init__(self, clock: Clock, stall_timeout_s: float, process_state: Callable[[], ProcessState | None]) -> None:
        self.clock = clock
        self.stall_timeout_s = stall_timeout_s
        self.process_state = process_state
        now = clock.now()
        self.heard_at = now
        self.moved_at = now
        """When a step was last seen to end, or there was nothing to do."""
        self.stats = CoreStats()
        self.computed_at = now
        """When the process was last seen to use the processor."""
        self.cpu_seconds = 0.0
        self.was_seen = False

    def heard(self, stats: CoreStats) -> None:
        """The core has sent a message with these numbers."""
        self.heard_at = self.clock.now()
        if stats.steps != self.stats.steps or not (stats.running or stats.waiting):
            self.moved_at = self.heard_at
        self.stats = stats

    def sample(self) -> ProcessState | None:
        """Looks at the process. Seldom sampling makes a core that has just stopped look alive until the next one."""
        state = self.process_state()
        if state is None:
            return None
        self.was_seen = True
        if state.cpu_seconds > self.cpu_seconds:
            self.cpu_seconds = state.cpu_seconds
            self.computed_at = self.clock.now()
        return state

    def check(self) -> Health:
        """Decides now."""
        state = self.sample()
        now = self.clock.now()
        if state is None and self.was_seen:
            return Health("dead", "the engine core's process is gone")
        if state is not None and state.state in ("Z", "X"):
            return Health("dead", "the engine core's process has ended")
        if state is not None and not state.is_able_to_run:
            return Health("stalled", "the engine core's process is stopped")
        silent_s = now - self.heard_at
        if silent_s > self.stall_timeout_s:
            is_computing = now - self.computed_at <= self.stall_timeout_s and silent_s <= LONGEST_STEP_S
            return HEALTHY if is_computing else Health("stalled", f"the engine core is silent for {silent_s:.0f} s")
        still_s = self.heard_at - self.moved_at
        if still_s > self.stall_timeout_s:
            waiting, running = self.stats.waiting, self.stats.running
            return Health("stalled", f"no step for {still_s:.0f} s while {running} requests run and {waiting} wait")
        return HEALTHY
