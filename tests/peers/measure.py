"""One round: a started server answers each load once, and every number carries how quiet the machine was.

Owns the loads (how many streams, how long the prompts). Knows no bar and no other server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from statistics import median
from typing import NamedTuple

import httpx

from tests.peers import machine
from tests.peers.load_client import Timing, closed_loop, median_ttft, open_client, output_rate, warm_up
from tests.peers.prompts import PromptMaker
from tests.peers.servers import Running

NUM_INPUT = NUM_OUTPUT = 128
LONG_INPUT = 1024
TTFT_REQUESTS = 5
TTFT_OUTPUT = 4
WARM_UP_INPUT = 16
ATTEMPTS = 3
PATIENCE_S = 120.0
"""How long a round waits, in all, for other programs to be done."""


class Sample(NamedTuple):
    """One number and what the processor did meanwhile."""

    value: float
    cores: machine.Cores


Round = dict[str, Sample]
"""Measure -> its sample: ready (s), ttft_128 and ttft_1024 (s), rate_N and decode_N (tokens/s), burst_ttft_N (s),
pss (bytes)."""


class Answers(NamedTuple):
    timings: list[Timing]
    cores: machine.Cores


async def one_round(running: Running, make: PromptMaker) -> Round:
    """Every load, in a fixed order; memory is read after the last."""
    async with open_client() as client:
        loads = Loads(client, running, make)
        await loads.first_answers()
        found: Round = {"ready": Sample(running.ready_s, running.start_cores)}
        for length in (NUM_INPUT, LONG_INPUT):
            found[f"ttft_{length}"] = await loads.ttft(length)
        for streams in running.server.streams:
            found |= await loads.throughput(streams)
    found["pss"] = Sample(machine.pss_bytes(running.pid), machine.NONE_USED)
    return found


class Loads:
    """The loads, for one server and its prompts."""

    def __init__(self, client: httpx.AsyncClient, running: Running, make: PromptMaker) -> None:
        self.client, self.endpoint, self.meter, self.make = client, running.endpoint, running.meter, make
        self.patience_s = PATIENCE_S

    async def first_answers(self) -> None:
        """What a server does once, at its first requests, is not measured."""
        await closed_loop(self.client, self.endpoint, self.make.many(2, 32), streams=1, num_output=16)

    async def ttft(self, num_input: int) -> Sample:
        """One request after the other."""
        answers = await self.undisturbed(lambda: self.ask(TTFT_REQUESTS, num_input, streams=1, num_output=TTFT_OUTPUT))
        return Sample(median_ttft(answers.timings), answers.cores)

    async def throughput(self, streams: int) -> Round:
        answers = await self.undisturbed(lambda: self.ask(streams, NUM_INPUT, streams=streams, num_output=NUM_OUTPUT))
        values = {
            f"rate_{streams}": output_rate(answers.timings),
            f"decode_{streams}": median(each.decode_rate for each in answers.timings),
            f"burst_ttft_{streams}": median_ttft(answers.timings),
        }
        return {measure: Sample(value, answers.cores) for measure, value in values.items()}

    async def ask(self, num_requests: int, num_input: int, *, streams: int, num_output: int) -> list[Timing]:
        prompts = self.make.many(num_requests, num_input)
        return await closed_loop(self.client, self.endpoint, prompts, streams=streams, num_output=num_output)

    async def undisturbed(self, load: Callable[[], Awaitable[list[Timing]]]) -> Answers:
        """Repeated, a few times at most, while other programs were at work; the last one stands, as it is."""
        answers = await self.once(load)
        for _ in range(ATTEMPTS - 1):
            if answers.cores.foreign <= machine.MAX_FOREIGN_CORES:
                break
            answers = await self.once(load)
        return answers

    async def once(self, load: Callable[[], Awaitable[list[Timing]]]) -> Answers:
        await self.quiet()
        start = self.meter.read()
        await warm_up(self.client, self.endpoint, self.make.make(WARM_UP_INPUT))
        timings = await load()
        return Answers(timings, self.meter.since(start))

    async def quiet(self) -> None:
        """Waits, but not for ever, until others leave the machine alone."""
        while self.patience_s > 0:
            start = self.meter.read()
            await asyncio.sleep(1.0)
            if self.meter.since(start).foreign <= machine.MAX_FOREIGN_CORES:
                return
            self.patience_s -= 1.0
