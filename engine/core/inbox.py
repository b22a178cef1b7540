"""Messages from clients, turned into acts on the scheduler. The only place that looks at their kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.base.ids import api_index
from engine.core.outbox import Outbox
from engine.schedule import Scheduler
from engine.wire.channel import CoreEnd
from engine.wire.output import Reply
from engine.wire.request import Abort, Call, Submit, ToCore

Method = Callable[[bytes], bytes]


class Inbox:
    """Drains the channel between steps; terminal outputs that arise here leave with the next message."""

    def __init__(self, end: CoreEnd, scheduler: Scheduler, outbox: Outbox, methods: Mapping[str, Method]) -> None:
        self.end = end
        self.scheduler = scheduler
        self.outbox = outbox
        self.methods = methods

    def take(self, timeout_s: float) -> None:
        """Handles everything that has come; waits up to timeout_s when nothing has."""
        for api_server, message in self.end.receive(timeout_s):
            self.handle(api_server, message)

    def handle(self, api_server: int, message: ToCore) -> None:
        match message:
            case Submit():
                assert api_index(message.request) == api_server
                self.outbox.put(self.scheduler.add(message))
            case Abort():
                self.outbox.put(self.scheduler.abort(message.requests))
            case Call():
                self.outbox.reply(api_server, self.answer(message))

    def answer(self, call: Call) -> Reply:
        method = self.methods.get(call.method)
        if method is None:
            return Reply(call.call, error=f"this core has no method {call.method!r}")
        return Reply(call.call, payload=method(call.payload))
