from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.schedule.budget import Budget


@given(st.integers(1, 50), st.lists(st.integers(0, 30)))
def test_a_budget_gives_what_is_asked_until_it_is_spent(tokens: int, wishes: list[int]) -> None:
    budget = Budget(tokens)
    given_out = [budget.take(wish) for wish in wishes]
    assert sum(given_out) == min(tokens, sum(wishes))
    assert budget.is_spent == (sum(wishes) >= tokens)
    assert all(a == b for a, b in zip(given_out, wishes, strict=True)) or budget.is_spent
