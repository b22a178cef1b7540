"""Columns of log probabilities: cut, joined, and read as entries."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import EngineFault
from engine.client.logprobs import TokenLogprob, count_rows, finite, join_rows, rows, slice_rows
from engine.wire.output import LogprobRows
from tests.fakes.scripted_core import logprob_rows

FLOATS = st.floats(width=32, max_value=0.0, allow_nan=False)


@st.composite
def columns(draw: st.DrawFn) -> LogprobRows:
    width, count = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    cells = [[(draw(st.integers(0, 99)), draw(FLOATS)) for _ in range(width)] for _ in range(count)]
    return logprob_rows(cells, [draw(st.integers(1, 500)) for _ in range(count)])


@given(whole=columns(), data=st.data())
def test_LGP_09_parts_cut_anywhere_join_to_the_whole(whole: LogprobRows, data: st.DataObject) -> None:
    count = count_rows(whole)
    ends = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
    parts = [slice_rows(whole, start, stop) for start, stop in zip([0, *ends], [*ends, count], strict=True)]
    assert join_rows(parts) == whole
    assert [row for part in parts for row in rows(part)] == list(rows(whole))


def test_a_row_is_the_token_and_its_alternatives_best_first() -> None:
    found = list(
        rows(logprob_rows([[(7, -3.0), (1, -0.5), (7, -3.0)], [(2, -0.25), (2, -0.25), (9, -math.inf)]], [2, 1]))
    )
    assert found[0].chosen == TokenLogprob(7, -3.0, 2)
    assert found[0].alternatives == (TokenLogprob(1, -0.5, 1), TokenLogprob(7, -3.0, 2))
    assert found[1].alternatives[1].logprob == -math.inf


def test_LGP_06_no_alternatives_are_a_row_of_one() -> None:
    (found,) = rows(logprob_rows([[(7, -3.0)]], [4]))
    assert found.chosen == TokenLogprob(7, -3.0, 4) and found.alternatives == ()


def test_nothing_joins_to_nothing() -> None:
    assert join_rows([]) is None


@pytest.mark.parametrize(
    "torn",
    [
        LogprobRows(2, b"12345678", b"1234", b"1234"),
        LogprobRows(2, b"1234", b"1234", b"1234"),
        LogprobRows(1, b"123", b"123", b"1234"),
        LogprobRows(1, b"12345678", b"12345678", b"1234"),
    ],
)
def test_columns_that_contradict_each_other_are_a_fault(torn: LogprobRows) -> None:
    with pytest.raises(EngineFault):
        count_rows(torn)
    with pytest.raises(EngineFault):
        list(rows(torn))


def test_columns_of_two_widths_do_not_join() -> None:
    with pytest.raises(EngineFault):
        join_rows([logprob_rows([[(1, -1.0)]], [1]), logprob_rows([[(1, -1.0), (2, -2.0)]], [1])])


@pytest.mark.parametrize(("given_", "expected"), [(-math.inf, -9999.0), (-1e30, -9999.0), (-0.5, -0.5), (0.0, 0.0)])
def test_json_never_sees_infinity(given_: float, expected: float) -> None:
    assert finite(given_) == expected


def test_json_never_sees_nan() -> None:
    assert finite(math.nan) == -9999.0
