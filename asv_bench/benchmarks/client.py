"""The streaming hand-off: chunks put while the reader lags, then taken once."""

from __future__ import annotations

from array import array

from engine.client.collector import StreamOutputCollector
from engine.wire.chunk import Chunk


class Merge:
    """One cycle: depth + 1 chunks put, one taken. ns per chunk is this over depth + 1."""

    version = "1"
    params = (1, 2, 8, 17, 64, 100, 500, 5000)
    param_names = ("depth",)

    def setup(self, depth: int) -> None:
        self.chunks = [Chunk(0, array("i", [number]), " word") for number in range(depth + 1)]
        self.collector = StreamOutputCollector()

    def time_put_and_take(self, depth: int) -> None:
        put = self.collector.put_nowait
        for chunk in self.chunks:
            put(chunk)
        assert self.collector.get_nowait() is not None
