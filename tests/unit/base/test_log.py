from __future__ import annotations

import logging

import pytest

from engine.base.log import EventLog


class Costly:
    """Says so when somebody formats it."""

    def __str__(self) -> str:
        raise AssertionError("formatted, though nobody prints it")


def test_a_line_that_is_not_printed_is_not_formatted() -> None:
    logging.getLogger("engine.test").setLevel(logging.WARNING)
    EventLog("engine.test").info("step", value=Costly())


def test_a_line_has_its_event_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("engine").propagate = True
    with caplog.at_level(logging.INFO, "engine.fields"):
        EventLog("engine.fields").info("preempted", request=7, blocks=3)
    assert caplog.messages == ["preempted request=7 blocks=3"]
