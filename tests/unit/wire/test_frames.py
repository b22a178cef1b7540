from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire.frames import FrameSocket, PeerGone

Pair = tuple[FrameSocket, FrameSocket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    with left, right:
        yield FrameSocket(left), FrameSocket(right)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_frames_arrive_whole_and_in_order(frames: list[bytes]) -> None:
    left, right = socket.socketpair()
    with left, right:
        for frame in frames:
            FrameSocket(left).send(frame)
        assert [FrameSocket(right).receive(1.0) for _ in frames] == frames


def test_a_wait_has_a_deadline(pair: Pair) -> None:
    with pytest.raises(TimeoutError):
        pair[1].receive(0.01)


def test_a_peer_that_is_gone_is_told_apart_from_one_that_is_slow(pair: Pair) -> None:
    pair[0].close()
    with pytest.raises(PeerGone):
        pair[1].receive(1.0)


def test_an_absurd_length_is_refused_before_anything_is_allocated(pair: Pair) -> None:
    pair[0].socket.sendall(b"\xff\xff\xff\xff")
    with pytest.raises(PeerGone, match="cannot be ours"):
        pair[1].receive(1.0)
