from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sampling.logprobs import LogprobColumns
from engine.wire.output import LogprobRows
from tests.oracles.sampling_reference import log_probability, rank


def columns_of(rows: LogprobRows) -> tuple[list[list[int]], list[list[float]], list[int]]:
    ids = np.frombuffer(rows.ids, dtype="<i4").reshape(-1, rows.width)
    values = np.frombuffer(rows.values, dtype="<f4").reshape(-1, rows.width)
    return ids.tolist(), values.tolist(), np.frombuffer(rows.ranks, dtype="<i4").tolist()


number = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(-30, 30, width=32))


@given(
    st.integers(1, 30).flatmap(lambda vocab: st.lists(number, min_size=vocab, max_size=vocab)),
    st.integers(0, 8),
    st.data(),
)
def test_rows_hold_the_token_itself_then_the_best(logits, alternatives, data):
    tokens = data.draw(st.lists(st.integers(0, len(logits) - 1), min_size=1, max_size=4))
    columns = LogprobColumns(alternatives, len(logits))
    assert all(columns.add(np.array(logits, dtype=np.float32), token) for token in tokens)
    ids, values, ranks = columns_of(columns.rows())
    best = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:alternatives]
    assert ids == [[token, *best] for token in tokens]
    assert ranks == [rank(logits, token) for token in tokens]
    for row, entries in zip(values, ids, strict=True):
        assert row == pytest.approx([log_probability(logits, token) for token in entries], abs=1e-5)


def test_a_row_of_any_vocabulary_sums_to_one():
    logits = (np.random.default_rng(0).standard_normal(5003) * 4).astype(np.float32)
    columns = LogprobColumns(5003, 5003)
    columns.add(logits, 0)
    _, values, _ = columns_of(columns.rows())
    assert np.exp(values[0][1:]).sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.filterwarnings("error")
def test_broken_entries_have_no_probability_and_take_none_from_the_others():
    columns = LogprobColumns(2, 4)
    assert columns.add(np.array([0.0, nan, 0.0, inf], dtype=np.float32), 1)
    ids, values, ranks = columns_of(columns.rows())
    assert (ids, ranks) == ([[1, 0, 2]], [3])
    assert values[0] == pytest.approx([-inf, np.log(0.5), np.log(0.5)])


@pytest.mark.filterwarnings("error")
def test_SMP_13_a_row_without_a_number_adds_nothing():
    columns = LogprobColumns(2, 4)
    assert not columns.add(np.full(4, nan, dtype=np.float32), 1)
    assert columns.rows().ids == b""


@pytest.mark.filterwarnings("error")
def test_the_ends_of_float32_are_numbers_like_any_other():
    columns = LogprobColumns(0, 2)
    assert columns.add(np.array([3e38, -3e38], dtype=np.float32), 0)
    assert columns_of(columns.rows())[1] == [[0.0]]
