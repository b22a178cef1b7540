"""StreamOutputCollector: at most one pending chunk per sibling between the engine's step and a reader.

Knows no tokens' text, no request and no socket; imports no tokenizer. How chunks fold is client/fold's.
"""

from __future__ import annotations

import asyncio
from collections import deque

from engine.base.errors import EngineFault
from engine.client.fold import COMPACT_AT, PendingChunk, check_chunk, merge_chunk
from engine.wire.chunk import Chunk


class StreamOutputCollector:
    """One per request. The engine's step puts, one reader gets; siblings (n > 1) are never mixed.

    A chunk that is put is handed over frozen; one sibling's chunks come in the order of their times. With a reader
    that keeps up nothing folds, and each chunk comes out as the object that was put.
    """

    __slots__ = ("error", "is_closed", "late_chunks", "num_unfinished", "pending", "ready", "waiter")

    def __init__(self, num_siblings: int = 1) -> None:
        self.pending = {index: PendingChunk(index) for index in range(num_siblings)}
        self.ready: deque[PendingChunk] = deque()
        self.num_unfinished = num_siblings
        self.late_chunks = 0
        """Chunks that came after their sibling's last one: a fault of the producer, counted and dropped."""
        self.error: Exception | None = None
        self.is_closed = False
        self.waiter: asyncio.Future[None] | None = None

    def put_nowait(self, chunk: Chunk) -> None:
        """O(1). Raises EngineFault for a malformed chunk; what waits is then exactly as it was.

        The body is merge_chunk's commonest case written out: one call more would cost a fifth of the whole.
        """
        try:
            pending = self.pending[chunk.index]
            if (
                chunk.finished
                or chunk.finish_reason is not None
                or chunk.logprobs is not None
                or chunk.num_cached_tokens is not None
            ):
                self.put_slowly(pending, chunk)
                return
            ids = pending.open_ids
            if ids is None:
                self.put_plain(pending, chunk)
                return
            text = chunk.text
            if type(text) is str:
                ids += chunk.token_ids
                texts = pending.texts
                texts.append(text)
                if len(texts) >= COMPACT_AT:
                    pending.compact_texts()
            else:
                if text is not None:
                    check_chunk(chunk)
                ids += chunk.token_ids
            pending.last_token_time = chunk.last_token_time
        except (KeyError, TypeError, AttributeError) as error:
            self.refuse(error)

    def put_plain(self, pending: PendingChunk, chunk: Chunk) -> None:
        """The first and the second chunk to wait, where they are tokens and text alone."""
        first = pending.first
        if first is None and not pending.is_finished:
            self.park(pending, chunk)
        elif first is not None and pending.ids is None and first.logprobs is None and not first.finished:
            pending.fold_pair(first, chunk)
        else:
            self.put_slowly(pending, chunk)

    def put_slowly(self, pending: PendingChunk, chunk: Chunk) -> None:
        """Any chunk, by the rules."""
        if pending.is_finished:
            self.late_chunks += 1
        elif pending.first is not None:
            merge_chunk(pending, chunk)
        else:
            self.park(pending, chunk)
            pending.is_finished = chunk.finished

    def park(self, pending: PendingChunk, chunk: Chunk) -> None:
        """Nothing waits: the chunk does, as it is, and whoever waits for one wakes up."""
        check_chunk(chunk)
        pending.first = chunk
        self.ready.append(pending)
        if self.waiter is not None:
            self.wake()

    def refuse(self, error: Exception) -> None:
        """A chunk that no sibling can take; after close() nobody wants any."""
        if not self.is_closed:
            raise EngineFault("a malformed chunk, or one of a sibling that this stream does not have") from error

    def get_nowait(self) -> Chunk | None:
        """The longest waiting sibling's pending chunk, None when nothing waits.

        Raises the stream's failure once nothing waits before it.
        """
        if self.ready:
            chunk = self.ready.popleft().take()
            self.num_unfinished -= chunk.finished
            return chunk
        if self.error is not None:
            raise self.error
        return None

    async def get(self) -> Chunk:
        """The next pending chunk, as soon as there is one. One reader at a time.

        Raises the stream's failure, or EngineFault where nothing can come any more.
        """
        while (chunk := self.get_nowait()) is None:
            if self.is_done:
                raise EngineFault("a finished or closed stream was read")
            await self.wait()
        return chunk

    async def wait(self) -> None:
        if self.waiter is not None:
            raise EngineFault("two readers of one stream")
        self.waiter = asyncio.get_running_loop().create_future()
        try:
            await self.waiter
        finally:
            self.waiter = None

    @property
    def is_done(self) -> bool:
        """Nothing waits and nothing will come."""
        return self.is_closed or self.num_unfinished == 0

    def fail(self, error: Exception) -> None:
        """The reader gets what waits, then this; the first failure counts."""
        if self.error is None and not self.is_done:
            self.error = error
            self.wake()

    def close(self) -> None:
        """The reader has gone: lets go of everything; what still comes is dropped. Safe to call twice."""
        self.is_closed = True
        self.pending = {}
        self.ready.clear()
        self.error = None
        self.wake()

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
