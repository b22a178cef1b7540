from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.base.config import CacheConfig
from engine.cache import KvCache
from engine.schedule.outputs import cut, deliverable, num_rows
from engine.schedule.request import Request
from engine.wire.output import LogprobRows
from engine.wire.request import Sampling
from engine.wire.step import RowLogprobs
from engine.wire.tokens import pack_ints, unpack
from tests.fakes.scripted_engine import submit
from tests.fakes.scripted_worker import logprob_rows

NUM_PROMPT = 12


def request_of() -> Request:
    message = submit(1, range(NUM_PROMPT), sampling=Sampling(max_tokens=4, prompt_logprobs=0))
    return Request(message, (0, 0.0, 1), KvCache(CacheConfig(), 8), max_model_len=100)


def wide_rows(first: int, end: int) -> LogprobRows:
    """Rows first .. end, two entries wide; every column knows which row it belongs to."""
    pairs = pack_ints(number for row in range(first, end) for number in (row, -row))
    return LogprobRows(width=2, ids=pairs, values=pairs, ranks=pack_ints(range(first, end)))


@given(st.integers(0, 6), st.integers(0, 6))
def test_cutting_takes_the_same_rows_of_every_column(first: int, length: int) -> None:
    assert cut(wide_rows(0, 12), first, first + length) == wide_rows(first, first + length)


def test_all_rows_are_passed_on_as_they_are() -> None:
    rows = wide_rows(0, 3)
    assert cut(rows, 0, 3) is rows


def test_rows_of_tokens_after_the_end_are_dropped() -> None:
    sampled, prompt = deliverable(request_of(), 11, 1, RowLogprobs(0, sampled=wide_rows(12, 15)))
    assert sampled == wide_rows(12, 13) and prompt is None


@given(st.lists(st.lists(st.integers(1, NUM_PROMPT), max_size=6), min_size=1, max_size=4))
def test_each_prompt_row_is_sent_once_however_often_and_in_whatever_chunks_it_is_computed(
    runs: list[list[int]],
) -> None:
    request, sent = request_of(), list[int]()
    for number, chunks in enumerate(runs):
        start = 0
        for chunk in [*chunks, *([NUM_PROMPT] if number == len(runs) - 1 else [])]:
            end = min(start + chunk, NUM_PROMPT)
            rows = logprob_rows(range(NUM_PROMPT + 1), start + 1, min(end + 1, NUM_PROMPT))
            if num_rows(rows):
                _, prompt = deliverable(request, start, 0, RowLogprobs(0, prompt=rows))
                sent.extend(unpack(prompt.ranks) if prompt else [])
            start = end
    assert sent == list(range(1, NUM_PROMPT))
    assert request.may_reuse
