from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.schedule.policy import POLICIES, Key, WaitingQueue
from tests.fakes.scripted_engine import submit


class Member:
    def __init__(self, key: Key) -> None:
        self.key = key


def order(policy: str, *priorities_and_arrivals: tuple[int, float]) -> list[int]:
    """The positions of these submits, in the order in which the policy serves them."""
    submits = [submit(1, [1], priority=priority, arrival=arrival) for priority, arrival in priorities_and_arrivals]
    keys = [POLICIES[policy](message, number) for number, message in enumerate(submits)]
    return sorted(range(len(keys)), key=lambda position: keys[position])


def test_fcfs_goes_by_arrival_whatever_the_priority() -> None:
    assert order("fcfs", (0, 3.0), (9, 1.0), (5, 2.0)) == [1, 2, 0]


def test_priority_serves_the_lower_value_first_then_the_earlier() -> None:
    assert order("priority", (1, 1.0), (0, 9.0), (1, 0.5), (-3, 9.0)) == [3, 1, 2, 0]


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_requests_keep_the_order_in_which_they_came(policy: str) -> None:
    assert order(policy, *[(0, 1.0)] * 5) == [0, 1, 2, 3, 4]


def test_nobody_waits_twice() -> None:
    queue: WaitingQueue[Member] = WaitingQueue()
    queue.push(member := Member((0, 0.0, 1)))
    with pytest.raises(AssertionError, match="waits twice"):
        queue.push(member)


def test_discarded_members_do_not_pile_up_behind_a_head_that_stays() -> None:
    queue: WaitingQueue[Member] = WaitingQueue()
    queue.push(Member((0, 0.0, 0)))
    for number in range(1, 1000):
        queue.push(member := Member((1, 0.0, number)))
        queue.discard(member)
    assert len(queue.heap) <= 20 and len(queue) == 1


@given(st.integers(0, 2**32))
def test_whoever_comes_back_stands_where_he_stood(seed: int) -> None:
    members = [Member((0, float(number), number)) for number in range(10)]
    queue: WaitingQueue[Member] = WaitingQueue()
    for member in Random(seed).sample(members, 10):
        queue.push(member)
    first = queue.head()
    assert first is members[0]
    queue.discard(first)
    assert queue.head() is members[1]
    queue.push(first)
    assert queue.head() is first


class QueueMachine(RuleBasedStateMachine):
    """The queue against a sorted list."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: WaitingQueue[Member] = WaitingQueue()
        self.model: list[Member] = []
        self.number = 0

    @rule(priority=st.integers(0, 3))
    def push(self, priority: int) -> None:
        self.number += 1
        self.model.append(member := Member((priority, 0.0, self.number)))
        self.queue.push(member)

    @rule(data=st.data())
    @precondition(lambda self: self.model)
    def discard(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.model))
        self.model.remove(member)
        assert self.queue.discard(member) and not self.queue.discard(member)

    @rule()
    @precondition(lambda self: self.model)
    def serve(self) -> None:
        self.model.remove(head := min(self.model, key=lambda member: member.key))
        assert self.queue.head() is head
        self.queue.discard(head)

    @invariant()
    def the_head_is_the_least(self) -> None:
        expected = min(self.model, key=lambda member: member.key) if self.model else None
        assert self.queue.head() is expected and len(self.queue) == len(self.model)


TestQueueMachine = QueueMachine.TestCase
