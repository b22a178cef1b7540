from __future__ import annotations

import pytest

from engine.base.config import CacheConfig
from engine.cache import KvCache
from engine.schedule.request import Request, State
from engine.schedule.running import Running
from engine.wire.tokens import unpack
from tests.fakes.scripted_engine import submit


def request_of(number: int) -> Request:
    return Request(submit(number, [1]), (0, 0.0, number), KvCache(CacheConfig(), 8), max_model_len=10)


def test_requests_run_in_policy_order_however_they_came() -> None:
    running = Running(4)
    requests = {number: request_of(number) for number in (3, 1, 2)}
    for request in requests.values():
        running.enter(request)
    assert list(running) == [requests[1], requests[2], requests[3]] and running.last() is requests[3]


def test_a_slot_is_held_by_one_and_can_be_taken_again_at_once() -> None:
    running = Running(2)
    running.enter(first := request_of(1))
    running.enter(request_of(2))
    assert not running.has_slot and first.slot == 0
    running.leave(first, State.GONE)
    running.enter(third := request_of(3))
    assert third.slot == 0


def test_each_released_slot_is_told_once() -> None:
    running = Running(2)
    running.enter(request := request_of(1))
    running.leave(request, State.WAITING)
    assert list(unpack(running.take_released())) == [0]
    assert running.take_released() == b""


def test_those_removed_from_the_end_while_others_are_visited_are_not_visited() -> None:
    running = Running(3)
    for number in (1, 2, 3):
        running.enter(request_of(number))
    visited = []
    for request in running:
        visited.append(request.id)
        if request.id == 1:
            running.leave(running.last(), State.WAITING)
    assert visited == [1, 2]


def test_only_a_running_request_leaves() -> None:
    running = Running(2)
    running.enter(request_of(1))
    stranger = request_of(1)
    stranger.move(State.RUNNING)
    with pytest.raises(AssertionError, match="only a running request"):
        running.leave(stranger, State.GONE)
