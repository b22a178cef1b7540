"""Length-prefixed frames over a socket pair: the way between a core and its worker processes.

4 bytes little-endian length, then the payload. One reader and one writer a side; no framing survives a lost peer.
"""

from __future__ import annotations

import socket
import struct

LENGTH = struct.Struct("<I")
LARGEST = 1 << 30


class PeerGone(OSError):
    """The other side closed, or died."""


class FrameSocket:
    """Blocking frames over a connected stream socket; a deadline bounds each wait."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected

    def send(self, payload: bytes) -> None:
        """Raises PeerGone when nobody reads any more."""
        try:
            self.socket.sendall(LENGTH.pack(len(payload)) + payload)
        except OSError as error:
            raise PeerGone(str(error)) from error

    def receive(self, timeout_s: float | None = None) -> bytes:
        """The next frame. Raises TimeoutError after timeout_s seconds without one, PeerGone at the peer's end."""
        self.socket.settimeout(timeout_s)
        (length,) = LENGTH.unpack(self.read(LENGTH.size))
        if length > LARGEST:
            raise PeerGone(f"a frame of {length} bytes cannot be ours")
        return self.read(length)

    def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(size - len(data))
            except TimeoutError:
                raise
            except OSError as error:
                raise PeerGone(str(error)) from error
            if not piece:
                raise PeerGone("the peer closed the connection")
            data += piece
        return bytes(data)

    def close(self) -> None:
        self.socket.close()
