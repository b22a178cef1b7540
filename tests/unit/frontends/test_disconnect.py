"""A client that leaves ends its request; whoever stays owes nothing when it is done."""

import asyncio

import pytest

from tests.fakes.fake_async_engine import FakeEngine, last_chunk, pieces, text_chunk
from tests.fakes.http import Call, app_of, client_of

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
ASK = {CHAT: {"messages": [{"role": "user", "content": "hi"}]}, COMPLETION: {"prompt": ["a", "b"]}}


def stuck_after(*texts: str) -> FakeEngine:
    """An engine that says these and then nothing, ever."""
    return FakeEngine(lambda *_: [*(text_chunk(text) for text in texts), asyncio.Event(), last_chunk()])


async def test_DIS_02_200_whole_answers_leave_nothing_open():
    engine = FakeEngine()
    async with client_of(engine) as client:
        for _ in range(200):
            assert (await client.post(COMPLETION, json=ASK[COMPLETION])).status_code == 200
    assert engine.open_streams == [] and engine.num_aborted == 0
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("texts", [(), ("a",), ("a", "b", "c")], ids=["queued", "one-chunk", "three-chunks"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("path", ASK)
async def test_DIS_03_leaving_aborts_the_request_at_once(path: str, stream: bool, texts: tuple[str, ...]):
    engine = stuck_after(*texts)
    call = Call(app_of(engine), path, {**ASK[path], "stream": stream})
    number = len(ASK[path].get("prompt", [0]))
    while len(engine.open_streams) < number:
        await asyncio.sleep(0)
    if stream and texts:
        await call.messages(2)
    call.leave()
    async with asyncio.timeout(1):
        await call.task
    assert engine.open_streams == [] and engine.num_aborted == number
    assert len(asyncio.all_tasks()) == 1


async def test_DIS_04_300_early_breaks_leave_the_server_as_it_was():
    engine = stuck_after("a")
    app = app_of(engine)

    async def broken() -> None:
        call = Call(app, CHAT, {**ASK[CHAT], "stream": True})
        await call.messages(2)
        call.leave()
        await call.task

    for _ in range(300 // 8 + 1):
        await asyncio.gather(*(broken() for _ in range(8)))
    assert engine.open_streams == []
    assert len(asyncio.all_tasks()) == 1
    engine.script = pieces("x")
    for _ in range(10):
        call = Call(app, CHAT, ASK[CHAT])
        await call.task
        assert call.sent[0]["status"] == 200


@pytest.mark.parametrize("awaits", range(12))
async def test_DIS_07_a_handler_cancelled_anywhere_leaves_no_request(awaits: int):
    engine = stuck_after("a", "b", "c")
    call = Call(app_of(engine), COMPLETION, {"prompt": ["a", "b"], "stream": True})
    for _ in range(awaits):
        await asyncio.sleep(0)
    call.task.cancel()
    await asyncio.gather(call.task, return_exceptions=True)
    assert engine.open_streams == []
    assert len(asyncio.all_tasks()) == 1


async def test_a_slow_reader_holds_up_nobody_else():
    engine = FakeEngine()
    app = app_of(engine)
    slow = Call(app, CHAT, {**ASK[CHAT], "stream": True})
    blocked = asyncio.Event()
    original = slow.send

    async def send(message):
        await blocked.wait()
        await original(message)

    slow.send = send
    slow.task.cancel()
    slow.task = asyncio.create_task(app(slow_scope(slow), slow.incoming.get, send))
    fast = Call(app, CHAT, ASK[CHAT])
    async with asyncio.timeout(1):
        await fast.task
    assert fast.sent[0]["status"] == 200
    blocked.set()
    slow.leave()
    await slow.task


def slow_scope(call: Call) -> dict:
    return {**call.scope}


async def test_a_client_that_leaves_while_its_body_is_read_is_no_error_of_ours(caplog):
    engine = FakeEngine()
    call = Call(app_of(engine), CHAT, b"")
    call.incoming.get_nowait()
    call.incoming.put_nowait({"type": "http.request", "body": b"{", "more_body": True})
    call.leave()
    await call.task
    assert engine.asked == []
    assert "crashed" not in caplog.text
