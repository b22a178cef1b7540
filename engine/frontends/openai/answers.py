"""All chunks of one response, from however many prompts: interleaved for streams, gathered for whole bodies.

Owns the streams: whoever closes the Answers ends what still runs. Knows no shape of any endpoint.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from functools import partial

from msgspec import Struct, field

from engine.base.errors import CapacityError, EngineFault
from engine.client.stream import RequestStream
from engine.wire.chunk import Chunk
from engine.wire.output import LogprobRows

# Why an answer ended, in OpenAI's words. An aborted one is no answer: whoever still listens gets an error.
FINISH_REASONS = {"stop": "stop", "length": "length"}
QUEUED_CHUNKS = 16


class Answers:
    """The chunks of `streams`, one stream a prompt, each with its prompt's number."""

    def __init__(self, streams: Sequence[RequestStream]) -> None:
        self.streams = streams
        self.fan_in = FanIn(streams) if len(streams) > 1 else None

    async def get(self) -> tuple[int, Chunk]:
        """Raises what RequestStream.get raises."""
        if self.fan_in is None:
            return 0, await self.streams[0].get()
        return await self.fan_in.get()

    @property
    def is_done(self) -> bool:
        return self.streams[0].is_done if self.fan_in is None else self.fan_in.is_done

    def close(self) -> None:
        """Aborts what still runs. Safe to call twice."""
        if self.fan_in is not None:
            self.fan_in.close()
        for stream in self.streams:
            stream.close()


class FanIn:
    """Many streams into one queue with little room: while it is full, what comes folds in each stream's collector."""

    def __init__(self, streams: Sequence[RequestStream]) -> None:
        self.queue: asyncio.Queue[tuple[int, Chunk | None]] = asyncio.Queue()
        self.room = asyncio.Semaphore(QUEUED_CHUNKS)
        self.num_left = sum(stream.num_siblings for stream in streams)
        self.pumps = [asyncio.create_task(self.pump(number, stream)) for number, stream in enumerate(streams)]
        for number, pump in enumerate(self.pumps):
            pump.add_done_callback(partial(self.ended, number))

    async def pump(self, number: int, stream: RequestStream) -> None:
        while not stream.is_done:
            chunk = await stream.get()
            await self.room.acquire()
            self.queue.put_nowait((number, chunk))

    def ended(self, number: int, _pump: asyncio.Task[None]) -> None:
        self.queue.put_nowait((number, None))

    async def get(self) -> tuple[int, Chunk]:
        while True:
            number, chunk = await self.queue.get()
            if chunk is not None:
                self.room.release()
                self.num_left -= chunk.finished
                return number, chunk
            await self.pumps[number]  # raises what ended the stream early

    @property
    def is_done(self) -> bool:
        return self.num_left == 0

    def close(self) -> None:
        for pump in self.pumps:
            pump.cancel()


class Answer(Struct):
    """One choice, gathered. token_ids: what usage counted."""

    text: list[str] = field(default_factory=list)
    token_ids: array[int] = field(default_factory=lambda: array("i"))
    logprobs: list[LogprobRows] = field(default_factory=list)
    finish_reason: str = ""
    stop_reason: int | str | None = None

    def add(self, chunk: Chunk) -> None:
        self.token_ids += chunk.token_ids
        if chunk.text:
            self.text.append(chunk.text)
        if chunk.logprobs is not None:
            self.logprobs.append(chunk.logprobs)
        if chunk.finished:
            self.finish_reason = finish_reason(chunk)
            self.stop_reason = chunk.stop_reason


def finish_reason(chunk: Chunk) -> str:
    """The public word on a last chunk. Raises CapacityError for an aborted answer."""
    if chunk.finish_reason == "abort":
        raise CapacityError("The server ended this answer before it was complete; try again.")
    if chunk.finish_reason not in FINISH_REASONS:
        raise EngineFault("an answer ended without a reason that clients know")
    return FINISH_REASONS[chunk.finish_reason]
