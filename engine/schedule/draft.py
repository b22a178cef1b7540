"""A step plan while it is being drawn up: rows first, columns of wire bytes at the end."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from engine.base.errors import EngineFault
from engine.schedule.request import Request
from engine.wire.step import Admit, StepPlan, StepResult
from engine.wire.tokens import pack, pack_ints, unpack


class Draft:
    """Row r runs the next counts[r] tokens of requests[r]. Kept until the step's result is in."""

    __slots__ = ("admits", "counts", "new_blocks", "requests", "step")

    def __init__(self, step: int) -> None:
        self.step = step
        self.requests: list[Request] = []
        self.counts: list[int] = []
        self.admits: list[Admit] = []
        self.new_blocks = array("i")

    def run(self, request: Request, count: int) -> None:
        self.requests.append(request)
        self.counts.append(count)

    def extend(self, slot: int, blocks: Iterable[int]) -> None:
        for block in blocks:
            self.new_blocks.extend((slot, block))

    def admit(self, request: Request) -> None:
        self.admits.append(
            Admit(
                slot=request.slot,
                request=request.id,
                attempt=request.attempt,
                tokens=pack(request.token_ids),
                num_prompt=request.num_prompt,
                computed=request.computed,
                sampling=request.sampling,
                blocks=pack(request.table.blocks),
            )
        )

    def draw_up(self, release: bytes) -> StepPlan:
        requests, counts = self.requests, self.counts
        return StepPlan(
            step=self.step,
            release=release,
            admit=self.admits,
            new_blocks=pack(self.new_blocks),
            slots=pack_ints([request.slot for request in requests]),
            counts=pack_ints(counts),
            starts=pack_ints([request.computed for request in requests]),
            sample=bytes([samples(*row) for row in zip(requests, counts, strict=True)]),
        )

    def match(self, result: StepResult) -> Iterator[tuple[int, Request, int, array[int]]]:
        """(row, request, tokens computed, tokens drawn) of each row.

        Raises EngineFault when the result is that of another plan, or has other rows.
        """
        lengths, tokens = unpack(result.lengths), unpack(result.tokens)
        if result.step != self.step or len(lengths) != len(self.requests) or sum(lengths) != len(tokens):
            raise EngineFault(f"the result of step {result.step} does not answer the plan of step {self.step}")
        start = 0
        for row, length in enumerate(lengths):
            yield row, self.requests[row], self.counts[row], tokens[start : start + length]
            start += length


def samples(request: Request, count: int) -> bool:
    """A row draws a token when it reaches the end of the known ones, and the answer has room for one."""
    return request.computed + count == len(request.token_ids) < request.length_limit
