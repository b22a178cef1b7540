from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import MAX_API_SERVERS, RequestIds, api_index, public_id


@given(st.integers(0, MAX_API_SERVERS - 1), st.integers(1, 50))
def test_a_request_id_carries_its_api_server_and_is_minted_once(index: int, number: int) -> None:
    ids = RequestIds(index)
    minted = [ids.mint() for _ in range(number)]
    assert {api_index(request) for request in minted} == {index}
    assert len(set(minted)) == number
    assert all(0 < request < 1 << 64 for request in minted)


def test_public_ids_differ_and_say_what_they_are() -> None:
    first, second = public_id("cmpl"), public_id("cmpl")
    assert first != second and first.startswith("cmpl-")
