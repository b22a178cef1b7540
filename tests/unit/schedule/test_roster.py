from __future__ import annotations

from engine.base.config import CacheConfig
from engine.cache import KvCache
from engine.schedule.request import Request, State
from engine.schedule.roster import Roster
from tests.fakes.scripted_engine import submit


def roster_of(num_blocks: int = 4) -> Roster:
    return Roster(KvCache(CacheConfig(block_size=4), num_blocks), num_slots=4)


def enter(roster: Roster, number: int, num_tokens: int = 6, leader: int = 0) -> Request:
    message = submit(number, range(number * 100, number * 100 + num_tokens), leader=leader)
    request = Request(message, (0, 0.0, number), roster.cache, max_model_len=100)
    roster.line_up(request)
    return request


def test_a_started_request_holds_a_slot_and_blocks_for_all_its_tokens() -> None:
    roster = roster_of()
    request = enter(roster, 1)
    assert roster.start(request)
    assert (request.state, request.slot, len(request.table.blocks)) == (State.RUNNING, 0, 2)
    assert roster.num_waiting == 0


def test_a_refused_start_leaves_the_request_where_it_is() -> None:
    roster = roster_of(num_blocks=1)
    request = enter(roster, 1)
    assert not roster.start(request)
    assert (request.state, roster.waiting.head(), len(roster.running)) == (State.WAITING, request, 0)


def test_a_newcomer_leaves_each_running_request_a_block() -> None:
    roster = roster_of(num_blocks=4)
    roster.start(enter(roster, 1))
    assert not roster.start(second := enter(roster, 2))
    roster.end(roster.requests[1])
    assert roster.start(second), "nobody runs, so nobody needs one"


def test_a_preempted_request_holds_nothing_but_its_tokens() -> None:
    roster = roster_of()
    roster.start(request := enter(roster, 1))
    request.computed = 5
    roster.preempt(request)
    assert (request.state, request.computed, request.slot) == (State.WAITING, 0, -1)
    assert roster.cache.stats().blocks_used == 0 and len(request.token_ids) == 6
    assert roster.start(request)


def test_DIS_02_whoever_ends_is_in_no_table_wherever_it_stood() -> None:
    roster = roster_of()
    running, waiting, parked = enter(roster, 1), enter(roster, 2), enter(roster, 3, leader=2)
    roster.start(running)
    for request in (parked, running, waiting):
        roster.end(request)
        assert request.state is State.GONE and request.id not in roster.requests
    assert (roster.num_waiting, len(roster.running), roster.cache.stats().blocks_used) == (0, 0, 0)
    assert not roster.siblings.followers


def test_a_follower_of_a_follower_waits_for_it() -> None:
    roster = roster_of()
    first, second = enter(roster, 1), enter(roster, 2, leader=1)
    third = enter(roster, 3, leader=2)
    roster.end(first)
    assert roster.waiting.head() is second and len(roster.siblings) == 1
    roster.end(second)
    assert roster.waiting.head() is third


def test_a_follower_takes_its_place_by_its_own_arrival() -> None:
    roster = roster_of()
    leader, follower, later = enter(roster, 1), enter(roster, 2, leader=1), enter(roster, 9)
    roster.end(leader)
    assert roster.waiting.head() is follower
    roster.end(follower)
    assert roster.waiting.head() is later
