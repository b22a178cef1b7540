"""HLM-01 and HLM-02: a core that is silent, stopped, gone or stuck is told from one that works or has nothing to do."""

from __future__ import annotations

from engine.client.liveness import LONGEST_STEP_S, Liveness
from engine.process.inspect import ProcessState
from engine.wire.output import CoreStats
from tests.fakes.manual_clock import ManualClock

TIMEOUT_S = 8.0


class Watched:
    """A core as the operating system and its heartbeats show it, second by second."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.state: ProcessState | None = ProcessState("S", 0.0)
        self.liveness = Liveness(self.clock, TIMEOUT_S, lambda: self.state)
        self.steps = 0

    def live(self, seconds: int, *, beats: bool = True, steps: int = 0, computes: bool = False, **work: int) -> str:
        """Lets time pass; what health said last."""
        for _ in range(seconds):
            self.clock.advance(1.0)
            self.steps += steps
            if computes and self.state is not None:
                self.state = ProcessState("R", self.state.cpu_seconds + 0.9)
            if beats:
                self.liveness.heard(CoreStats(steps=self.steps, **work))
            self.liveness.sample()
        return self.liveness.check().state


def test_HLM_02_an_idle_core_is_healthy() -> None:
    assert Watched().live(100) == "healthy"


def test_HLM_02_a_working_core_is_healthy() -> None:
    assert Watched().live(100, steps=30, computes=True, running=3, waiting=5) == "healthy"


def test_HLM_02_a_long_prefill_is_silent_and_healthy() -> None:
    core = Watched()
    core.live(5, steps=10, computes=True, running=1)
    assert core.live(30, beats=False, computes=True) == "healthy"
    assert core.live(2, steps=1, running=1) == "healthy"


def test_an_endless_step_is_not_healthy_for_ever() -> None:
    assert Watched().live(int(LONGEST_STEP_S) + 2, beats=False, computes=True) == "stalled"


def test_HLM_02_waiting_requests_that_nobody_schedules_are_a_stall() -> None:
    core = Watched()
    assert core.live(7, waiting=2) == "healthy"
    assert core.live(3, waiting=2) == "stalled"
    assert "2 wait" in core.liveness.check().reason
    assert core.live(1, steps=1, waiting=2) == "healthy", "it moves again"


def test_running_requests_without_steps_are_a_stall_too() -> None:
    assert Watched().live(10, running=1) == "stalled"


def test_HLM_01_a_silent_core_that_does_not_compute_is_a_stall_within_the_timeout() -> None:
    core = Watched()
    core.live(20, steps=1, running=1)
    assert core.live(8, beats=False) == "healthy"
    assert core.live(1, beats=False) == "stalled"
    assert core.live(100, beats=False) == "stalled"
    assert core.live(1) == "healthy"


def test_a_core_that_computed_and_then_hung_is_a_stall_within_the_timeout() -> None:
    core = Watched()
    core.live(20, beats=False, computes=True)
    assert core.live(8, beats=False) == "healthy"
    assert core.live(1, beats=False) == "stalled"


def test_HLM_01_a_stopped_core_is_seen_at_once() -> None:
    core = Watched()
    for letter in "Tt":
        core.state = ProcessState(letter, 5.0)
        assert core.liveness.check().state == "stalled"
    core.state = ProcessState("S", 5.0)
    assert core.liveness.check().is_healthy


def test_HLM_01_an_ended_core_is_dead_at_once() -> None:
    core = Watched()
    core.state = ProcessState("Z", 5.0)
    assert core.liveness.check().state == "dead"


def test_HLM_01_a_core_that_is_gone_is_dead_at_once() -> None:
    core = Watched()
    core.live(3)
    core.state = None
    assert core.liveness.check().state == "dead"


def test_where_nothing_is_known_of_processes_heartbeats_decide() -> None:
    core = Watched()
    core.state = None
    assert core.live(100) == "healthy"
    assert core.live(9, beats=False) == "stalled"
