"""Responses that follow a running request: as server-sent events, or as one body at its end.

Owns the ASGI side: when the status line goes out, what a client that leaves ends, how an error ends a stream.

Policy: no status line before the first output, so that every error up to then has its HTTP status. After it, an error
is one `data: {"error": ...}` event, then `data: [DONE]` and the end of the body, on every endpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.frontends.openai import sse
from engine.frontends.openai.answers import Answer, Answers
from engine.frontends.openai.errors import describe
from engine.frontends.openai.middleware import direct_send
from engine.wire.chunk import Chunk

START = {"type": "http.response.start", "status": 200, "headers": list(sse.HEADERS)}


class Writer(Protocol):
    """How an endpoint puts a response into bytes."""

    def frames(self, prompt: int, chunk: Chunk) -> bytes:
        """The events of one chunk; b"" where it says nothing yet."""

    def ending(self) -> bytes:
        """The events after the last chunk."""

    def body(self, choices: dict[tuple[int, int], Answer]) -> bytes:
        """The whole answer; keys are (prompt, sibling), in order."""


class Following(Response):
    """A response that runs until its answers are done or its client is gone, whichever is first."""

    def __init__(self, answers: Answers, writer: Writer) -> None:
        self.answers = answers
        self.writer = writer
        self.status_code = 200
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Closes the answers in every case, also when cancelled."""
        work = asyncio.ensure_future(self.work(scope, send))
        gone = asyncio.ensure_future(disconnect(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.answers.close()
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
        if not work.cancelled():
            work.result()

    def work(self, scope: Scope, send: Send) -> Coroutine[Any, Any, None]:  # Any: a coroutine's own two
        raise NotImplementedError


async def disconnect(receive: Receive) -> None:
    """Returns when the client has gone. The body has been read, so that nothing else comes."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Following):
    """Server-sent events. What one chunk says goes out in one write, the last chunk together with the ending."""

    async def work(self, scope: Scope, send: Send) -> None:
        frames = await self.next_frames()
        send_middle = direct_send(scope, send)
        await send({**START, "headers": [*sse.HEADERS]})
        try:
            while not self.answers.is_done:
                await send_middle({"type": "http.response.body", "body": frames, "more_body": True})
                frames = await self.next_frames()
            frames += self.writer.ending()
        except Exception as error:  # noqa: BLE001 - the edge of the process: the status has gone out
            frames = sse.event(describe(error).body) + sse.DONE
        await send({"type": "http.response.body", "body": frames, "more_body": False})

    async def next_frames(self) -> bytes:
        """The next chunk that says something; b"" only at the end."""
        answers, writer = self.answers, self.writer
        while True:
            frames = writer.frames(*await answers.get())
            if frames or answers.is_done:
                return frames


class WholeAnswer(Following):
    """One JSON body when every choice is complete."""

    async def work(self, _scope: Scope, send: Send) -> None:
        choices: dict[tuple[int, int], Answer] = {}
        while not self.answers.is_done:
            prompt, chunk = await self.answers.get()
            choices.setdefault((prompt, chunk.index), Answer()).add(chunk)
        body = self.writer.body(dict(sorted(choices.items())))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})
