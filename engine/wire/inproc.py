"""A channel inside one process: two queues. For the offline LLM, the batch runner's tests, and fakes.

Messages are handed over as they are; they are frozen, so nobody can tell the difference from a socket.
"""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from engine.wire.output import FromCore
from engine.wire.request import ToCore

Message = TypeVar("Message")


class InprocChannel:
    """Both ends of one hallway between one client and one core of the same thread."""

    def __init__(self) -> None:
        self.to_core: deque[ToCore] = deque()
        self.from_core: deque[FromCore] = deque()
        self.client = InprocClientEnd(self)
        self.core = InprocCoreEnd(self)


class InprocClientEnd:
    """The client's end."""

    def __init__(self, channel: InprocChannel) -> None:
        self.channel = channel

    def send(self, message: ToCore) -> None:
        self.channel.to_core.append(message)

    def receive(self) -> list[FromCore]:
        return drain(self.channel.from_core)

    def close(self) -> None:
        self.channel.to_core.clear()


class InprocCoreEnd:
    """The core's end. Nobody else runs in this thread, so there is nothing to wait for."""

    def __init__(self, channel: InprocChannel) -> None:
        self.channel = channel

    def receive(self, timeout_s: float) -> list[tuple[int, ToCore]]:
        del timeout_s
        return [(0, message) for message in drain(self.channel.to_core)]

    def send(self, api_server: int, message: FromCore) -> None:
        assert api_server == 0
        self.channel.from_core.append(message)

    def close(self) -> None:
        self.channel.to_core.clear()


def drain(queue: deque[Message]) -> list[Message]:
    messages = list(queue)
    queue.clear()
    return messages
