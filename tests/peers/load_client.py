"""A small load client: streams completions in a closed loop and times their tokens. Speaks only HTTP.

Counts are the server's own usage, and an answer of another length than asked is an error, not a sample.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any, NamedTuple

import httpx

from tests.peers.prompts import Prompt

WAIT_S = 600.0
WARM_UP_TOKENS = 4


class Endpoint(NamedTuple):
    """How one server is asked. extra: fields of the body that only this server knows."""

    url: str
    model: str
    takes_ids: bool = True
    extra: Mapping[str, object] = {}


class Timing(NamedTuple):
    """One answer. Times in seconds on one clock; num_tokens as the server counted them."""

    sent: float
    first: float
    last: float
    num_tokens: int

    @property
    def ttft(self) -> float:
        return self.first - self.sent

    @property
    def decode_rate(self) -> float:
        """Tokens a second after the first."""
        return (self.num_tokens - 1) / (self.last - self.first) if self.last > self.first else 0.0


def output_rate(timings: Sequence[Timing]) -> float:
    """Tokens a second over all streams, from the first request sent to the last token received."""
    elapsed = max(each.last for each in timings) - min(each.sent for each in timings)
    return sum(each.num_tokens for each in timings) / elapsed


def median_ttft(timings: Sequence[Timing]) -> float:
    return median(each.ttft for each in timings)


def open_client() -> httpx.AsyncClient:
    """As many connections as there are streams; the environment's proxies are not for loopback."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(timeout=httpx.Timeout(WAIT_S, connect=10.0), limits=limits, trust_env=False)


async def closed_loop(
    client: httpx.AsyncClient, endpoint: Endpoint, prompts: Sequence[Prompt], *, streams: int, num_output: int
) -> list[Timing]:
    """Each stream asks its next prompt when its last answer is whole. Raises AssertionError for a wrong answer."""
    waiting = iter(prompts)

    async def stream() -> list[Timing]:
        return [await ask(client, endpoint, prompt, num_output) for prompt in waiting]

    return list(chain.from_iterable(await asyncio.gather(*(stream() for _ in range(streams)))))


async def ask(client: httpx.AsyncClient, endpoint: Endpoint, prompt: Prompt, num_output: int) -> Timing:
    """One greedy completion, streamed. Raises AssertionError unless it has exactly the tokens asked for."""
    body = {
        "model": endpoint.model,
        "prompt": prompt.token_ids if endpoint.takes_ids else prompt.text,
        "max_tokens": num_output,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **endpoint.extra,
    }
    sent = time.perf_counter()
    arrivals: list[float] = []
    usage: dict[str, int] = {}
    async with client.stream("POST", endpoint.url + "/v1/completions", json=body) as response:
        assert response.status_code == 200, f"{response.status_code}: {(await response.aread())[:500]!r}"
        rest = b""
        async for piece in response.aiter_raw():
            now = time.perf_counter()
            *lines, rest = (rest + piece).split(b"\n")
            for event in events(lines):
                usage = event.get("usage") or usage
                if any(choice.get("text") for choice in event.get("choices", ())):
                    arrivals.append(now)
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
    assert counts == (len(prompt.token_ids), num_output), f"{counts} tokens, asked for {num_output}: {endpoint.url}"
    assert arrivals, f"an answer without text: {endpoint.url}"
    return Timing(sent, arrivals[0], arrivals[-1], num_output)


def events(lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON of each `data:` line. Raises AssertionError for an error sent inside a stream."""
    for line in lines:
        if line.startswith(b"data:") and (data := line[5:].strip()) != b"[DONE]":
            event = json.loads(data)
            assert "error" not in event, f"the server says: {data[:500]!r}"
            yield event


async def warm_up(client: httpx.AsyncClient, endpoint: Endpoint, prompt: Prompt) -> None:
    """A server that was idle answers its first request slower; this is that request."""
    await ask(client, endpoint, prompt, WARM_UP_TOKENS)
