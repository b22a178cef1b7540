from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.config import CacheConfig
from engine.base.errors import EngineFault
from engine.cache import KvCache
from engine.schedule.draft import Draft
from engine.schedule.request import Request
from engine.wire.request import Sampling
from engine.wire.step import StepResult
from engine.wire.tokens import pack_ints, unpack
from tests.fakes.scripted_engine import submit


def request_of(num_tokens: int, computed: int = 0, slot: int = 0, max_tokens: int = 4) -> Request:
    message = submit(1, range(num_tokens), sampling=Sampling(max_tokens=max_tokens))
    request = Request(message, (0, 0.0, 1), KvCache(CacheConfig(), 8), max_model_len=1000)
    request.computed, request.slot = computed, slot
    return request


def test_a_plan_has_one_column_entry_for_each_row() -> None:
    draft = Draft(7)
    draft.run(request_of(5, computed=2, slot=3), 3)
    draft.run(request_of(9, computed=4, slot=1), 2)
    draft.extend(3, [8, 9])
    plan = draft.draw_up(pack_ints([6]))
    assert plan.step == 7 and list(unpack(plan.release)) == [6]
    assert [list(unpack(column)) for column in (plan.slots, plan.counts, plan.starts)] == [[3, 1], [3, 2], [2, 4]]
    assert plan.sample == bytes([1, 0])
    assert list(unpack(plan.new_blocks)) == [3, 8, 3, 9]


def test_a_row_draws_no_token_that_the_answer_has_no_room_for() -> None:
    draft = Draft(1)
    draft.run(request_of(5, max_tokens=0), 5)
    assert draft.draw_up(b"").sample == b"\0"


def test_an_admitted_sequence_comes_complete() -> None:
    request = request_of(5, computed=0, slot=2)
    request.table.extend([4])
    draft = Draft(1)
    draft.admit(request)
    (admit,) = draft.draw_up(b"").admit
    assert (admit.slot, admit.request, admit.num_prompt, admit.computed) == (2, 1, 5, 0)
    assert list(unpack(admit.tokens)) == [0, 1, 2, 3, 4] and list(unpack(admit.blocks)) == [4]


def test_LAW_4_a_plan_grows_with_its_rows_and_not_with_their_history() -> None:
    sizes = []
    for length in (10, 1000):
        draft = Draft(1)
        draft.run(request_of(length, computed=length - 1), 1)
        plan = draft.draw_up(b"")
        sizes.append(sum(map(len, (plan.slots, plan.counts, plan.starts, plan.sample, plan.new_blocks))))
    assert sizes[0] == sizes[1]


@given(st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=6))
def test_each_row_gets_its_own_tokens_back(drawn: list[list[int]]) -> None:
    draft = Draft(1)
    for _ in drawn:
        draft.run(request_of(5), 5)
    result = StepResult(1, pack_ints(map(len, drawn)), pack_ints(token for row in drawn for token in row))
    assert [list(tokens) for _, _, _, tokens in draft.match(result)] == drawn


@pytest.mark.parametrize(
    ("step", "lengths", "tokens"),
    [(2, [1], [5]), (1, [1, 0], [5]), (1, [], []), (1, [1], []), (1, [1], [5, 6])],
    ids=["other-step", "too-many-rows", "too-few-rows", "too-few-tokens", "too-many-tokens"],
)
def test_a_result_that_answers_something_else_is_a_fault(step: int, lengths: list[int], tokens: list[int]) -> None:
    draft = Draft(1)
    draft.run(request_of(5), 5)
    with pytest.raises(EngineFault, match=f"step {step} does not answer the plan of step 1"):
        list(draft.match(StepResult(step, pack_ints(lengths), pack_ints(tokens))))
