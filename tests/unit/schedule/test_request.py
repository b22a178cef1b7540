from __future__ import annotations

import pytest

from engine.base.config import CacheConfig
from engine.cache import KvCache
from engine.schedule.request import MOVES, Request, State
from engine.wire.output import FinishReason
from engine.wire.request import Sampling
from tests.fakes.scripted_engine import submit


def request_of(
    num_tokens: int = 5, *, max_model_len: int = 100, num_prompt: int | None = None, **sampling: int
) -> Request:
    message = submit(1, range(num_tokens), num_prompt=num_prompt, sampling=Sampling(**{"max_tokens": 4, **sampling}))
    return Request(message, (0, 0.0, 1), KvCache(CacheConfig(block_size=4), 8), max_model_len)


@pytest.mark.parametrize("origin", State)
@pytest.mark.parametrize("target", State)
def test_only_the_moves_of_the_table_are_made(origin: State, target: State) -> None:
    request = request_of()
    request.state = origin
    if target in MOVES[origin]:
        request.move(target)
        assert request.state is target
    else:
        with pytest.raises(AssertionError, match=f"never moves from {origin.name} to {target.name}"):
            request.move(target)


def test_nobody_comes_back_once_gone() -> None:
    assert not MOVES[State.GONE]


def test_tokens_are_an_int32_array_that_the_block_table_reads_too() -> None:
    request = request_of()
    request.token_ids.append(9)
    assert request.token_ids.typecode == "i" and request.table.num_tokens == 6


@pytest.mark.parametrize(("max_tokens", "max_model_len", "limit"), [(4, 100, 9), (4, 9, 9), (4, 8, 8), (0, 100, 5)])
def test_an_answer_ends_at_max_tokens_or_at_the_context(max_tokens: int, max_model_len: int, limit: int) -> None:
    assert request_of(max_tokens=max_tokens, max_model_len=max_model_len).length_limit == limit


def test_a_request_asks_for_the_tokens_that_are_not_computed() -> None:
    request = request_of(5)
    request.computed = 3
    assert request.num_uncomputed == 2


def test_SCH_03_tokens_of_the_answer_stay_so_when_it_is_resumed() -> None:
    assert request_of(5, num_prompt=3).num_output == 2


def test_only_the_first_delta_tells_how_much_was_cached() -> None:
    request = request_of()
    request.table.num_cached = 4
    assert [request.delta(0, b"").num_cached, request.delta(0, b"").num_cached] == [4, 0]


def test_no_more_is_told_to_be_cached_than_the_prompt_holds() -> None:
    request = request_of(5, num_prompt=3)
    request.table.num_cached = 4
    assert request.delta(2, b"").num_cached == 3


def test_a_request_that_never_ran_had_nothing_cached() -> None:
    assert request_of().delta(0, b"", FinishReason.ABORT).num_cached == 0


@pytest.mark.parametrize(("scored", "may"), [(1, False), (4, False), (5, True)])
def test_cached_blocks_will_not_do_while_prompt_logprobs_are_owed(scored: int, may: bool) -> None:
    request = request_of(5, prompt_logprobs=0)
    request.num_scored = scored
    assert request.may_reuse is may
