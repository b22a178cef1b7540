"""What leaves a core: one message per API server and step, and a heartbeat where there was nothing to say."""

from __future__ import annotations

from engine.base.clock import Clock
from engine.base.ids import api_index
from engine.schedule import Outputs
from engine.wire.channel import CoreEnd
from engine.wire.output import CoreStats, Delta, Failed, FromCore, Reply, StepOutput, StepTimes

HEARTBEAT_S = 1.0


class Outbox:
    """Collects outputs by API server until they are flushed, once a step."""

    def __init__(self, end: CoreEnd, num_api_servers: int, epoch: int, clock: Clock) -> None:
        self.end = end
        self.epoch = epoch
        self.clock = clock
        self.deltas: list[list[Delta]] = [[] for _ in range(num_api_servers)]
        self.failed: list[list[Failed]] = [[] for _ in range(num_api_servers)]
        self.sent_at = [0.0] * num_api_servers

    def put(self, outputs: Outputs) -> None:
        """Each output is its API server's."""
        for delta in outputs.deltas:
            self.deltas[api_index(delta.request)].append(delta)
        for failure in outputs.failed:
            self.failed[api_index(failure.request)].append(failure)

    def reply(self, api_server: int, reply: Reply) -> None:
        self.end.send(api_server, reply)

    def broadcast(self, message: FromCore) -> None:
        for api_server in range(len(self.deltas)):
            self.end.send(api_server, message)

    def flush(self, stats: CoreStats, times: StepTimes) -> None:
        """One message to every API server that has outputs, or has heard nothing for HEARTBEAT_S."""
        now = self.clock.now()
        for api_server, (deltas, failed) in enumerate(zip(self.deltas, self.failed, strict=True)):
            if not deltas and not failed and now - self.sent_at[api_server] < HEARTBEAT_S:
                continue
            self.end.send(api_server, StepOutput(self.epoch, stats.steps, deltas, failed, stats, times))
            self.deltas[api_server], self.failed[api_server] = [], []
            self.sent_at[api_server] = now
