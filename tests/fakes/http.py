"""Small HTTP readers for tests: events of a stream, and an ASGI call that can leave early."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
from starlette.types import ASGIApp, Message

from engine.base.config import FrontendConfig
from engine.frontends.openai import create_app
from tests.fakes.fake_async_engine import FakeEngine


def app_of(engine: FakeEngine, **config: Any) -> ASGIApp:
    return create_app(engine, FrontendConfig(**config))


def client_of(engine: FakeEngine, **config: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app_of(engine, **config), raise_app_exceptions=True)
    return httpx.AsyncClient(transport=transport, base_url="http://server")


def events(body: bytes | str) -> list[Any]:
    """The JSON of every event, "[DONE]" as that string. Fails on anything between events."""
    text = body.decode() if isinstance(body, bytes) else body
    *frames, rest = text.split("\n\n")
    assert rest == ""
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    return [frame[6:] if frame == "data: [DONE]" else json.loads(frame[6:]) for frame in frames]


def chunks(body: bytes | str) -> list[Any]:
    """The events of a stream that ended well, without [DONE]."""
    *found, done = events(body)
    assert done == "[DONE]"
    return found


class Call:
    """One request, driven by hand: `sent` fills as the app answers, `leave()` is the client closing its connection."""

    def __init__(self, app: ASGIApp, path: str, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.sent: list[Message] = []
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.incoming.put_nowait({"type": "http.request", "body": data, "more_body": False})
        self.changed = asyncio.Event()
        named = {"content-type": "application/json", **(headers or {})}
        self.scope = {
            "type": "http",
            "http_version": "1.1",
            "asgi": {"version": "3.0"},
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(key.encode(), value.encode()) for key, value in named.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        self.task = asyncio.create_task(app(dict(self.scope), self.incoming.get, self.send))

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.changed.set()

    async def messages(self, number: int) -> list[Message]:
        """Waits until the app has sent so many."""
        while len(self.sent) < number:
            self.changed.clear()
            await self.changed.wait()
        return self.sent

    def leave(self) -> None:
        self.incoming.put_nowait({"type": "http.disconnect"})

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)
