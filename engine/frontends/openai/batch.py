"""OpenAI batch files: each line is a request, sent through the app without a socket; each answer is a line.

https://platform.openai.com/docs/guides/batch. Knows no engine: the app validates, answers and refuses as over HTTP.
"""

from __future__ import annotations

import asyncio
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, TextIO

import httpx
import msgspec
from msgspec import Raw, Struct
from starlette.types import ASGIApp
from tqdm import tqdm

from engine.base.errors import ConfigError, EngineDead
from engine.base.ids import public_id

URLS = ("/v1/chat/completions", "/v1/completions")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, or nested too deeply."""


class BatchRequest(Struct):
    """A line of the input. `body` stays as it was written; the app reads it."""

    custom_id: str
    url: str
    body: Raw
    method: str = "POST"


class BatchError(Struct):
    code: str
    message: str


class BatchResponse(Struct):
    status_code: int
    request_id: str
    body: Raw


class BatchAnswer(Struct):
    """A line of the output: a response, or the reason why the line could not be a request."""

    id: str
    custom_id: str | None
    response: BatchResponse | None = None
    error: BatchError | None = None


async def answer_batch(app: ASGIApp, source: Path, target: Path, *, concurrency: int) -> None:
    """Appends one answer per line of `source` to `target`, as they come; ids that `target` has are left out.

    Raises EngineDead, in an ExceptionGroup, when the engine is lost: what has no answer then is left to another run.
    """
    done = answered_ids(target)
    with source.open("rb") as lines, target.open("a", encoding="utf-8") as answers:
        total = sum(1 for line in lines if line.strip())
        lines.seek(0)
        progress: tqdm[NoReturn] = tqdm(total=total, unit="request", desc="run-batch")
        with progress:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://batch", timeout=None) as client:
                todo, seen = numbered(lines), set[str]()
                async with asyncio.TaskGroup() as workers:
                    for _ in range(concurrency):
                        workers.create_task(work(client, todo, done, seen, answers, progress))


def answered_ids(target: Path) -> frozenset[str]:
    """What an earlier run has answered. A last line cut short by a crash is cut off, to be answered again.

    Raises ConfigError, and changes nothing, when the file is not one of answers.
    """
    if not target.exists():
        return frozenset()
    whole = target.read_bytes()
    kept = whole[: whole.rfind(b"\n") + 1]
    try:
        answers = [msgspec.json.decode(line, type=BatchAnswer) for line in kept.splitlines() if line.strip()]
    except UNREADABLE as error:
        raise ConfigError(f"{target} holds other things than answers of a batch: {error}") from error
    if len(kept) < len(whole):
        target.write_bytes(kept)
    return frozenset(answer.custom_id for answer in answers if answer.custom_id is not None)


def numbered(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    return ((number, line.removeprefix(BOM_UTF8)) for number, line in enumerate(lines, 1) if line.strip())


async def work(
    client: httpx.AsyncClient,
    todo: Iterator[tuple[int, bytes]],
    done: frozenset[str],
    seen: set[str],
    answers: TextIO,
    progress: tqdm[NoReturn],
) -> None:
    """Takes lines until none is left; an answer is on disk before the next line is taken."""
    for number, line in todo:
        answer = await answer_line(client, number, line, done, seen)
        if answer is not None:
            answers.write(msgspec.json.encode(answer).decode() + "\n")
            answers.flush()
        progress.update()


async def answer_line(
    client: httpx.AsyncClient, number: int, line: bytes, done: frozenset[str], seen: set[str]
) -> BatchAnswer | None:
    """None for a line that an earlier run has answered; `seen` are the ids of this run."""
    identity = public_id("batch_req")
    try:
        request = msgspec.json.decode(line, type=BatchRequest)
    except UNREADABLE as error:
        return BatchAnswer(identity, None, error=BatchError("invalid_line", f"line {number}: {error}"))
    if request.custom_id in done:
        return None
    problem = "its custom_id stands on an earlier line too" if request.custom_id in seen else refusal(request)
    seen.add(request.custom_id)
    if problem:
        refused = BatchError("invalid_request", f"line {number}: {problem}")
        return BatchAnswer(identity, request.custom_id, error=refused)
    reply = await client.post(request.url, content=bytes(request.body), headers={"content-type": "application/json"})
    if reply.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise EngineDead("the engine was lost; --resume answers what is missing")
    response = BatchResponse(reply.status_code, reply.headers.get("x-request-id", identity), Raw(reply.content))
    return BatchAnswer(identity, request.custom_id, response=response)


def refusal(request: BatchRequest) -> str | None:
    """Why this line cannot be sent, if it cannot."""
    if request.method != "POST":
        return f"method must be POST, not {request.method}"
    if request.url not in URLS:
        return f"url must be one of {', '.join(URLS)}"
    try:
        streams = msgspec.json.decode(request.body, type=Streams).stream
    except UNREADABLE:
        return None  # The app says what is wrong with the body.
    return "stream is not for batches: leave it out" if streams else None


class Streams(Struct):
    """The one field of a body that a batch cannot honour."""

    stream: bool | None = None
