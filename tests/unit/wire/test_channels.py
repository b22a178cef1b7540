"""Both kinds of hallway behave alike: the same conversation over sockets and inside one process."""

from __future__ import annotations

import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.wire.channel import ClientEnd, CoreEnd
from engine.wire.inproc import InprocChannel
from engine.wire.output import CoreStats, FromCore, Ready, StepOutput
from engine.wire.request import Abort, ToCore
from engine.wire.sockets import SocketClientEnd, SocketCoreEnd

PATIENCE_S = 5.0
READY = Ready(epoch=0, pid=1, max_model_len=2, num_blocks=3, block_size=16)


@pytest.fixture(params=["sockets", "inproc"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ClientEnd, CoreEnd]]:
    if request.param == "inproc":
        channel = InprocChannel()
        yield channel.client, channel.core
        return
    endpoint = f"ipc://{tmp_path}/api0"
    client, core = SocketClientEnd(endpoint), SocketCoreEnd([endpoint])
    yield client, core
    core.close()
    client.close()


def next_from_core(client: ClientEnd, number: int) -> list[FromCore]:
    messages = client.receive()
    while len(messages) < number:
        if isinstance(client, SocketClientEnd):
            assert select.select([client.fileno()], [], [], PATIENCE_S)[0]
        messages += client.receive()
    return messages


def test_messages_arrive_in_order_both_ways(ends: tuple[ClientEnd, CoreEnd]) -> None:
    client, core = ends
    core.send(0, READY)
    for step in range(100):
        core.send(0, StepOutput(0, step, [], [], CoreStats()))
    heard = next_from_core(client, 101)
    assert heard[0] == READY
    assert [message.step for message in heard[1:] if isinstance(message, StepOutput)] == list(range(100))

    said: list[ToCore] = [Abort((number,)) for number in range(100)]
    for message in said:
        client.send(message)
    got: list[tuple[int, ToCore]] = []
    while len(got) < 100:
        pieces = core.receive(PATIENCE_S)
        assert pieces, "the core heard nothing"
        got += pieces
    assert got == [(0, message) for message in said]


def test_nothing_to_receive_is_an_empty_list(ends: tuple[ClientEnd, CoreEnd]) -> None:
    client, core = ends
    assert client.receive() == []
    assert core.receive(0.0) == []


def test_closing_twice_is_safe(ends: tuple[ClientEnd, CoreEnd]) -> None:
    for end in ends:
        end.close()
        end.close()


def test_a_core_tells_its_api_servers_apart(tmp_path: Path) -> None:
    endpoints = [f"ipc://{tmp_path}/api{index}" for index in range(2)]
    clients = [SocketClientEnd(endpoint) for endpoint in endpoints]
    core = SocketCoreEnd(endpoints)
    core.send(1, READY)
    assert next_from_core(clients[1], 1) == [READY]
    clients[1].send(Abort((5,)))
    assert core.receive(PATIENCE_S) == [(1, Abort((5,)))]
    assert clients[0].receive() == []
    for end in (core, *clients):
        end.close()


def test_what_is_said_before_the_core_is_there_reaches_it(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/api0"
    client = SocketClientEnd(endpoint)
    for number in range(3):
        client.send(Abort((number,)))
    core = SocketCoreEnd([endpoint])
    core.send(0, READY)
    assert next_from_core(client, 1) == [READY]
    heard: list[tuple[int, ToCore]] = []
    while len(heard) < 3:
        pieces = core.receive(PATIENCE_S)
        assert pieces, "what was said is lost"
        heard += pieces
    assert heard == [(0, Abort((number,))) for number in range(3)]
    core.close()
    client.close()


def test_sending_to_a_core_that_is_not_there_does_not_block(tmp_path: Path) -> None:
    client = SocketClientEnd(f"ipc://{tmp_path}/api0")
    client.send(Abort((1,)))
    client.close()
