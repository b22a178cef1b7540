"""Real processes: how they are started, named, ended, and how they follow their parent."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from engine.process.inspect import process_state
from engine.process.spawn import spawn
from engine.process.titles import Role, name_of, title_of
from tests.fakes.children import exit_with, parent_of_one, report_collector, wait_for_ever, write_payload
from tests.fakes.waiting import until

PATIENCE_S = 20.0


@pytest.mark.parametrize(
    ("role", "name"),
    [
        (Role("launcher"), "launcher"),
        (Role("api", api=0), "api[0]"),
        (Role("core", dp=1), "core[dp1]"),
        (Role("worker", dp=0, tp=1), "worker[dp0 tp1]"),
    ],
)
def test_every_role_has_one_name(role: Role, name: str) -> None:
    assert name_of(role) == name
    assert title_of(role) == f"enginewright: {name}"


def test_a_child_gets_its_payload_whole_and_its_threads(tmp_path: Path) -> None:
    place, content = tmp_path / "out", b"x" * 300_000
    child = spawn(write_payload, str(place).encode() + b"\0" + content, Role("core", dp=0), threads=3)
    assert child.end(PATIENCE_S) == 0
    assert place.read_bytes() == content + b"\x003"


def test_a_child_imports_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(99)")
    (tmp_path / "msgspec.py").write_text("raise SystemExit(99)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    assert spawn(exit_with, b"7", Role("core")).end(PATIENCE_S) == 7


def test_the_collector_rests_while_a_child_starts_and_finds_its_heap_frozen(tmp_path: Path) -> None:
    place = tmp_path / "collector"
    assert spawn(report_collector, str(place).encode(), Role("core")).end(PATIENCE_S) == 0
    assert place.read_text() == "[[False, 0], [True, True]]"


def test_an_exit_code_is_seen(tmp_path: Path) -> None:
    child = spawn(exit_with, b"7", Role("core"))
    assert child.end(PATIENCE_S) == 7
    assert child.exit_code() == 7


def test_a_child_that_does_not_end_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    child = spawn(wait_for_ever, str(place).encode(), Role("core"))
    until(place.exists, PATIENCE_S)
    child.terminate()
    assert child.end(0.2) == -signal.SIGKILL


def test_a_grandchild_dies_with_its_killed_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))  # Where its function is found.
    place = tmp_path / "pid"
    parent = spawn(parent_of_one, str(place).encode(), Role("core"))
    until(lambda: place.exists() and place.read_text() != "", PATIENCE_S)
    orphan = psutil.Process(int(place.read_text()))
    parent.process.kill()
    parent.end(PATIENCE_S)
    until(lambda: not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE, 1.0)


def test_a_child_whose_payload_nobody_reads_harms_nobody() -> None:
    child = spawn(exit_with, b"1", Role("core"))
    child.process.kill()
    assert child.end(PATIENCE_S) < 0


def test_a_stopped_process_is_seen_as_stopped(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    child = spawn(wait_for_ever, str(place).encode(), Role("core"))
    until(place.exists, PATIENCE_S)
    child.process.send_signal(signal.SIGSTOP)
    until(lambda: (state := process_state(child.pid)) is not None and not state.is_able_to_run, 2.0)
    child.process.kill()
    child.end(PATIENCE_S)
    assert process_state(child.pid) is None
