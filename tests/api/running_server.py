"""A real server over a scripted engine: uvicorn on a free loopback port, in a thread of its own."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from engine.base.config import FrontendConfig
from engine.frontends.openai import create_app
from engine.frontends.openai.server import Server, uvicorn_config
from tests.fakes.fake_async_engine import FakeEngine


@contextmanager
def running(engine: FakeEngine, **fields: Any) -> Iterator[int]:
    """The port. At the end every connection is closed and the thread has ended."""
    config = FrontendConfig(**fields)
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(uvicorn_config(create_app(engine, config), config))
    thread = threading.Thread(target=uvloop.run, args=(server.serve(sockets=[listener]),))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        assert not thread.is_alive()


class Connection:
    """One TCP connection, driven byte by byte."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def post(self, path: str, body: bytes, *headers: str) -> None:
        lines = [f"POST {path} HTTP/1.1", "host: x", "content-type: application/json", *headers]
        if not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in headers):
            lines.append(f"content-length: {len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode() + body)

    def head(self) -> tuple[int, dict[str, str]]:
        status = int(self.file.readline().split()[1])
        headers = {}
        while line := self.file.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name.lower()] = value
        return status, headers

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and a body whose length the server declared, or that ends in its last chunk."""
        status, headers = self.head()
        if "content-length" in headers:
            return status, headers, self.file.read(int(headers["content-length"]))
        return status, headers, b"".join(iter(self.chunk, b""))

    def chunk(self) -> bytes:
        """The next piece of a chunked body; b"" at its end."""
        size = int(self.file.readline(), 16)
        data = self.file.read(size)
        self.file.readline()
        return data

    def is_closed(self) -> bool:
        """Waits for the server to close: there is nothing more to read."""
        return self.file.read(1) == b""


def error_of(body: bytes) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error
