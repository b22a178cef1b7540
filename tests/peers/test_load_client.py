"""The load client, against an application in this process: what it counts, and what it refuses to count."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.fakes.fake_async_engine import FakeEngine, pieces
from tests.fakes.http import client_of
from tests.peers.load_client import Endpoint, Timing, ask, closed_loop, median_ttft, output_rate
from tests.peers.prompts import Prompt

PROMPT = Prompt("abc", [97, 98, 99])
HERE = Endpoint("http://server", "tiny")


class Scripted:
    """A server whose streams are written out here; remembers its bodies, and how many it answered at once."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines
        self.bodies: list[dict[str, Any]] = []
        self.open = self.most_open = 0

    def client(self) -> httpx.AsyncClient:
        app = Starlette(routes=[Route("/v1/completions", self.answer, methods=["POST"])])
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=app))

    async def answer(self, request: Request) -> StreamingResponse:
        self.bodies.append(await request.json())
        return StreamingResponse(self.stream(), media_type="text/event-stream")

    async def stream(self) -> AsyncIterator[str]:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        for line in self.lines:
            await asyncio.sleep(0)
            yield f"data: {line}\n\n"
        self.open -= 1


def text(piece: str) -> str:
    return json.dumps({"choices": [{"index": 0, "text": piece}]})


def usage(prompt: int, completion: int) -> str:
    return json.dumps({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})


async def test_our_own_frontend_is_understood() -> None:
    async with client_of(FakeEngine(pieces("ab", "c"))) as client:
        timing = await ask(client, HERE, PROMPT, 3)
    assert timing.num_tokens == 3
    assert timing.sent < timing.first <= timing.last


@pytest.mark.parametrize(("prompt", "completion"), [(3, 2), (4, 3), (3, 4)])
async def test_an_answer_of_another_length_is_no_sample(prompt: int, completion: int) -> None:
    async with Scripted(text("ab"), usage(prompt, completion), "[DONE]").client() as client:
        with pytest.raises(AssertionError, match="asked for 3"):
            await ask(client, HERE, PROMPT, 3)


async def test_an_answer_without_counts_is_no_sample() -> None:
    async with Scripted(text("abc"), "[DONE]").client() as client:
        with pytest.raises(AssertionError, match="None"):
            await ask(client, HERE, PROMPT, 3)


async def test_an_error_inside_a_stream_is_no_sample() -> None:
    async with Scripted(text("a"), json.dumps({"error": {"message": "lost"}})).client() as client:
        with pytest.raises(AssertionError, match="lost"):
            await ask(client, HERE, PROMPT, 3)


async def test_a_refusal_is_no_sample() -> None:
    engine = FakeEngine(pieces("abc"))
    async with client_of(engine) as client:
        with pytest.raises(AssertionError, match="404"):
            await ask(client, HERE._replace(model="unknown"), PROMPT, 3)


async def test_as_many_requests_run_as_there_are_streams_and_each_prompt_once() -> None:
    server = Scripted(text("a"), text("b"), usage(3, 2), "[DONE]")
    prompts = [Prompt(str(number), [number, 1, 2]) for number in range(10)]
    async with server.client() as client:
        timings = await closed_loop(client, HERE, prompts, streams=4, num_output=2)
    assert len(timings) == 10
    assert server.most_open == 4
    assert sorted(body["prompt"][0] for body in server.bodies) == list(range(10))


async def test_a_server_that_takes_no_ids_is_given_the_text_and_its_own_fields() -> None:
    server = Scripted(text("a"), usage(3, 1), "[DONE]")
    async with server.client() as client:
        await ask(client, Endpoint("http://server", "m", takes_ids=False, extra={"cache_prompt": False}), PROMPT, 1)
    assert server.bodies[0]["prompt"] == "abc"
    assert server.bodies[0]["cache_prompt"] is False
    assert server.bodies[0]["max_tokens"] == 1


def test_rates_are_tokens_over_time() -> None:
    timings = [Timing(0.0, 1.0, 5.0, 9), Timing(1.0, 1.5, 3.0, 7)]
    assert [each.decode_rate for each in timings] == [2.0, 4.0]
    assert output_rate(timings) == 16 / 5
    assert median_ttft(timings) == 0.75
