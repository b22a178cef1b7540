"""How a server ends: it stops accepting, lets answers finish, and says so to those it must cut."""

import asyncio
import json
import os
import signal
import socket

from engine.base.config import FrontendConfig
from engine.base.errors import EngineDead
from engine.frontends.openai import create_app, serve_app
from tests.fakes.fake_async_engine import FakeEngine, last_chunk, text_chunk

ASK = json.dumps({"messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()


class ClosingEngine(FakeEngine):
    """One chunk, then it waits: for `gate`, or until it is closed, which is a failure of the stream."""

    def __init__(self) -> None:
        super().__init__(self.answer)
        self.gate = asyncio.Event()
        self.is_closed = False

    def answer(self, *_):
        yield text_chunk("a")
        yield self.gate
        yield EngineDead("the server is shutting down") if self.is_closed else last_chunk("b")

    async def close(self) -> None:
        self.is_closed = True
        self.gate.set()


async def ask(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A stream whose first event has come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(ASK)}"
    )
    writer.write(head.encode() + b"\r\n\r\n" + ASK)
    await reader.readuntil(b'"content":"a"')
    return reader, writer


def start(engine: FakeEngine, **fields: object) -> tuple[int, asyncio.Task]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    config = FrontendConfig(**fields)
    return port, asyncio.create_task(serve_app(create_app(engine, config), listener, config, engine))


async def test_after_sigterm_running_answers_finish_and_new_connections_are_refused():
    engine = ClosingEngine()
    port, serving = start(engine, shutdown_timeout_s=20)
    reader, writer = await ask(port)
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        while await accepts(port):
            pass
    engine.gate.set()
    async with asyncio.timeout(5):
        rest = await reader.read()
        await serving
    assert b'"content":"b"' in rest and b"data: [DONE]" in rest
    assert not engine.is_closed and engine.open_streams == []
    writer.close()


async def accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return False
    writer.close()
    return True


async def test_an_answer_that_outlives_the_drain_is_told_why_it_ends():
    engine = ClosingEngine()
    port, serving = start(engine, shutdown_timeout_s=0.2)
    reader, writer = await ask(port)
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        rest = await reader.read()
        await serving
    assert b'"error"' in rest and b"shutting down" in rest and b"data: [DONE]" in rest
    assert engine.open_streams == []
    writer.close()


async def test_idle_connections_do_not_hold_up_the_end():
    port, serving = start(FakeEngine(), shutdown_timeout_s=20)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
    await reader.readuntil(b"ok")
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        await serving
    writer.close()
