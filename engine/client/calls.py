"""Calls to a core that wait for their reply: correlation ids, deadlines, typed errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from engine.base.errors import EngineDead, EngineFault
from engine.wire.output import Reply
from engine.wire.request import Call


class PendingCalls:
    """`send` hands a Call to the core. Every call ends: by its reply, its deadline, or the core's death."""

    def __init__(self, send: Callable[[Call], None]) -> None:
        self.send = send
        self.numbers = count(1)
        self.waiting: dict[int, asyncio.Future[bytes]] = {}

    async def call(self, method: str, payload: bytes, timeout_s: float) -> bytes:
        """Raises EngineFault for the core's typed error or a missed deadline."""
        number = next(self.numbers)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.waiting[number] = future
        try:
            self.send(Call(number, method, payload))
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError as error:
            raise EngineFault(f"the engine core did not answer {method!r} within {timeout_s:g} s") from error
        finally:
            del self.waiting[number]

    def deliver(self, reply: Reply) -> None:
        """A reply that comes after its deadline is dropped."""
        future = self.waiting.get(reply.call)
        if future is None or future.done():
            return
        if reply.error is not None:
            future.set_exception(EngineFault(reply.error))
        else:
            future.set_result(reply.payload)

    def fail_all(self, reason: str) -> None:
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(EngineDead(reason))
