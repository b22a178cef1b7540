from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.sampling.rows import best_on_device, best_on_host, host_rows, numbers_of

entries = st.sampled_from([0.0, 1.0, -2.0, nan, inf, -inf])


@given(st.lists(st.lists(entries, min_size=5, max_size=5), min_size=1, max_size=4))
def test_host_and_device_agree_on_the_best_entry(rows):
    logits = np.array(rows, dtype=np.float32)
    host, device = best_on_host(logits), best_on_device(torch.from_numpy(logits))
    assert host[0].tolist() == device[0].tolist()
    np.testing.assert_array_equal(host[1], device[1])


@given(st.lists(entries, min_size=1, max_size=6))
@pytest.mark.filterwarnings("error")
def test_numbers_of_a_row_are_its_finite_entries(row):
    found = numbers_of(np.array(row, dtype=np.float32))
    finite = [value if np.isfinite(value) else -inf for value in row]
    assert (None if found is None else found.tolist()) == (finite if max(finite) > -inf else None)


def test_a_sound_row_is_not_copied():
    row = np.zeros(4, dtype=np.float32)
    assert numbers_of(row) is row


def test_all_rows_are_a_view_and_some_are_in_the_order_asked_for():
    logits = torch.arange(12.0).view(4, 3)
    assert np.shares_memory(host_rows(logits, range(4)), logits.numpy())
    assert host_rows(logits, [2, 0]).tolist() == [[6.0, 7.0, 8.0], [0.0, 1.0, 2.0]]
