"""One HTTP/1.1 connection: uvicorn's, with bounds on a request's head that uvicorn sets none for.

Without them a client that has no key can hold any amount of memory, and connections for ever.
"""

from __future__ import annotations

import asyncio
import re

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""Of a request line and its headers, beyond the first read of them."""

UPGRADE = re.compile(rb"(\r\n)(upgrade:)", re.IGNORECASE)
HEAD_END = b"\r\n\r\n"


class Connection(HttpToolsProtocol):
    """A head has the keep-alive time to come in, from the connection's start or the head's first byte."""

    is_in_head = True
    expects_head = True
    head_bytes = 0
    num_begun = 0
    head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's.
        super().connection_made(transport)
        self.await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        begun = self.num_begun
        super().data_received(without_upgrade(data) if self.expects_head else data)
        # The read in which a head begins may hold the body before it, so it does not count.
        if self.is_in_head and self.num_begun == begun and not self.transport.is_closing():
            self.head_bytes += len(data)
            if self.head_bytes > MAX_HEAD_BYTES:
                self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.is_in_head, self.head_bytes = True, 0
        self.num_begun += 1
        self.await_head()

    def on_headers_complete(self) -> None:
        self.is_in_head = self.expects_head = False
        self.stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.expects_head = True
        super().on_message_complete()

    def await_head(self) -> None:
        self.stop_timer()
        self.head_timer = self.loop.call_later(self.timeout_keep_alive, self.give_up)

    def give_up(self) -> None:
        """No head in time. While an answer runs, nothing is read, so a pipelined head has its time afterwards."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self.await_head()

    def stop_timer(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None


def without_upgrade(data: bytes) -> bytes:
    """The first read of a head, with an offer to change protocols (h2c, as Java's clients make it) renamed away.

    We never change protocols, and may ignore the offer (RFC 9110, 7.8); the parser would take it up and drop the body.
    """
    head, end, rest = data.partition(HEAD_END)
    return UPGRADE.sub(rb"\1x-\2", head) + end + rest if b"pgrade" in head else data
