"""The hallway over ZeroMQ: each API server binds one ipc socket, each core connects to all of them.

The only file that knows zmq. ZMQ's descriptor is edge-triggered (zmq_getsockopt(3), ZMQ_FD): whoever waits on it
must drain after every wake and after every send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import zmq

from engine.wire.codec import decode_from_core, decode_to_core, encode
from engine.wire.output import FromCore
from engine.wire.request import ToCore

LINGER_MS = 500
UNBOUNDED = 0  # Bounds live where they can be explained: admission in the core, folding in the collector.


def open_socket(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    socket = context.socket(kind)
    socket.set(zmq.LINGER, LINGER_MS)
    socket.set(zmq.SNDHWM, UNBOUNDED)
    socket.set(zmq.RCVHWM, UNBOUNDED)
    return socket


def drain(socket: zmq.Socket[bytes]) -> list[bytes]:
    frames = []
    try:
        while True:
            frames.append(socket.recv(zmq.NOBLOCK))
    except zmq.Again:
        return frames


class SocketClientEnd:
    """An API server's end: binds, never blocks. `fileno()` is for the event loop's reader."""

    def __init__(self, endpoint: str) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = open_socket(self.context, zmq.PAIR)
        self.socket.bind(endpoint)
        self.unsent: deque[bytes] = deque()
        """What was said before the core connected; it goes out with the first word from there."""

    def fileno(self) -> int:
        return int(self.socket.get(zmq.FD))

    def send(self, message: ToCore) -> None:
        self.unsent.append(encode(message))
        self.flush()

    def flush(self) -> None:
        try:
            while self.unsent:
                self.socket.send(self.unsent[0], zmq.NOBLOCK)
                self.unsent.popleft()
        except zmq.Again:
            return  # Nobody is connected: not yet, or no more, and then liveness tells everyone who waits.

    def receive(self) -> list[FromCore]:
        frames = drain(self.socket)
        self.flush()
        return [decode_from_core(frame) for frame in frames]

    def close(self) -> None:
        if not self.socket.closed:
            self.socket.close()
            self.context.term()


class SocketCoreEnd:
    """A core's end: one connection to each API server, in their order."""

    def __init__(self, endpoints: Sequence[str]) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.poller = zmq.Poller()
        self.sockets = [self.connect(endpoint) for endpoint in endpoints]

    def connect(self, endpoint: str) -> zmq.Socket[bytes]:
        socket = open_socket(self.context, zmq.PAIR)
        socket.connect(endpoint)
        self.poller.register(socket, zmq.POLLIN)
        return socket

    def receive(self, timeout_s: float) -> list[tuple[int, ToCore]]:
        if timeout_s > 0:
            self.poller.poll(round(timeout_s * 1000))
        return [(index, decode_to_core(frame)) for index, socket in enumerate(self.sockets) for frame in drain(socket)]

    def send(self, api_server: int, message: FromCore) -> None:
        # Without its API server there is nobody to tell; the launcher ends the core in that case.
        try:
            self.sockets[api_server].send(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            return

    def close(self) -> None:
        for socket in self.sockets:
            if not socket.closed:
                socket.close()
        self.context.term()
