"""Messages between the halves: encode, decode, and how large a plan is."""

from __future__ import annotations

from engine.wire import codec
from engine.wire.output import CoreStats, Delta, StepOutput
from engine.wire.step import StepPlan
from engine.wire.tokens import pack_ints


def decode_plan(rows: int, history: int) -> StepPlan:
    columns = [pack_ints(range(rows)), pack_ints([1] * rows), pack_ints([history] * rows)]
    return StepPlan(1, b"", [], b"", *columns, bytes([1] * rows))


class StepOutputs:
    """One step's outputs for an API server: one token for each of its streams."""

    version = "1"
    params = (1, 64, 1024)
    param_names = ("streams",)

    def setup(self, streams: int) -> None:
        deltas = [Delta(number, 0, 500, pack_ints([7])) for number in range(streams)]
        self.output = StepOutput(0, 1, deltas, [], CoreStats())
        self.encoded = codec.encode(self.output)

    def time_encode(self, streams: int) -> None:
        codec.encode(self.output)

    def time_decode(self, streams: int) -> None:
        codec.decode_from_core(self.encoded)


class PlanSize:
    """Bytes of a plan of 64 decoding rows; must not grow with their history."""

    version = "1"
    unit = "bytes"
    params = (0, 100_000)
    param_names = ("history",)

    def track_plan_bytes(self, history: int) -> int:
        return len(codec.encode(decode_plan(64, history)))
