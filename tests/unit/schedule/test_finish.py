from __future__ import annotations

from array import array

import pytest

from engine.base.config import CacheConfig
from engine.cache import KvCache
from engine.schedule.finish import append, dead_end
from engine.schedule.request import Request
from engine.wire.output import FinishReason
from engine.wire.request import Sampling
from tests.fakes.scripted_engine import submit

END = 7


def request_of(
    num_tokens: int = 3, *, max_model_len: int = 100, num_prompt: int | None = None, **sampling: int
) -> Request:
    message = submit(
        1,
        range(10, 10 + num_tokens),
        num_prompt=num_prompt,
        sampling=Sampling(**{"max_tokens": 4, "end_ids": (5, END), **sampling}),
    )
    return Request(message, (0, 0.0, 1), KvCache(CacheConfig(), 8), max_model_len)


def ends(request: Request, *drawn: int) -> tuple[int, FinishReason | None]:
    return append(request, array("i", drawn))


def test_an_answer_goes_on_until_something_ends_it() -> None:
    request = request_of()
    assert ends(request, 1) == (1, None) and list(request.token_ids[3:]) == [1]


def test_any_end_id_ends_an_answer_and_is_its_last_token() -> None:
    request = request_of()
    assert ends(request, END) == (1, FinishReason.END) and request.token_ids[-1] == END
    assert ends(request_of(), 5) == (1, FinishReason.END)


def test_max_tokens_end_an_answer() -> None:
    request = request_of(max_tokens=2)
    assert [ends(request, 1), ends(request, 1)] == [(1, None), (1, FinishReason.LENGTH)]


def test_an_end_id_as_the_last_possible_token_is_an_end() -> None:
    assert ends(request_of(max_tokens=1), END) == (1, FinishReason.END)


def test_LEN_11_the_context_ends_an_answer() -> None:
    request = request_of(3, max_model_len=5, max_tokens=50)
    assert [ends(request, 1), ends(request, 1)] == [(1, None), (1, FinishReason.LENGTH)]


def test_an_end_id_counts_only_after_min_tokens() -> None:
    request = request_of(min_tokens=2)
    assert [ends(request, END)[1] for _ in range(3)] == [None, None, FinishReason.END]


def test_min_tokens_count_what_a_resumed_answer_has_already() -> None:
    assert ends(request_of(5, num_prompt=3, min_tokens=2), END) == (1, FinishReason.END)


def test_max_tokens_win_over_min_tokens() -> None:
    assert ends(request_of(max_tokens=1, min_tokens=9), END) == (1, FinishReason.LENGTH)


def test_tokens_drawn_after_the_end_are_dropped() -> None:
    request = request_of()
    assert ends(request, 1, END, 1) == (2, FinishReason.END) and list(request.token_ids[3:]) == [1, END]


def test_the_chunk_of_a_longer_prompt_ends_nothing() -> None:
    assert ends(request_of(max_tokens=0)) == (0, None)


def test_a_request_for_no_tokens_ends_with_its_prompt() -> None:
    request = request_of(3, max_tokens=0)
    request.computed = 3
    assert ends(request) == (0, FinishReason.LENGTH)


@pytest.mark.parametrize(
    ("computed", "capacity", "status"), [(2, 3, None), (3, 3, 500), (2, 2, 400)], ids=["fine", "no-token", "too-long"]
)
def test_a_request_that_cannot_go_on_is_known(computed: int, capacity: int, status: int | None) -> None:
    request = request_of(3)
    request.computed = computed
    fault = dead_end(request, capacity)
    assert (fault[1] if fault else None) == status
