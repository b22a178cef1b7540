from __future__ import annotations

from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.sampling.filters import best_ids, only_best

scores = st.lists(
    st.one_of(st.sampled_from([-inf, 0.0, 1.0]), st.floats(-5, 5, width=32)), min_size=1, max_size=300
).filter(lambda values: max(values) > -inf)


def in_order(values: list[float]) -> list[int]:
    return sorted(range(len(values)), key=lambda token: (-values[token], token))


@given(scores, st.integers(1, 310))
def test_best_ids_are_in_order_with_ties_by_lower_id(values, k):
    assert best_ids(np.array(values, dtype=np.float32), k).tolist() == in_order(values)[:k]


@given(scores, st.integers(1, 300))
def test_only_best_keeps_exactly_the_best(values, k):
    k = min(k, len(values))
    kept = only_best(np.array(values, dtype=np.float32), k).tolist()
    best = set(in_order(values)[:k])
    assert kept == [value if token in best else -inf for token, value in enumerate(values)]
