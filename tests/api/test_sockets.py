"""Where the case is about bytes on a connection: lengths, limits, slow senders, keep-alive, leaving early."""

import asyncio
import json
import threading

import pytest

from tests.api.running_server import Connection, error_of, running
from tests.fakes.fake_async_engine import FakeEngine, last_chunk, pieces, text_chunk

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
GOOD = b'{"prompt":"a"}'
LIMIT = 64 * 1024


def body_of(size: int) -> bytes:
    """A valid body of exactly so many bytes."""
    return b'{"prompt":"' + b"x" * (size - 13) + b'"}'


@pytest.fixture(scope="module")
def port():
    with running(FakeEngine(pieces("ok")), max_body_bytes=LIMIT, body_timeout_s=0.5) as port:
        yield port


def works(port: int) -> bool:
    with Connection(port) as other:
        other.post(COMPLETION, GOOD)
        return other.answer()[0] == 200


@pytest.mark.parametrize(
    "length",
    [
        pytest.param(["content-length: abc"], id="INP-03-no-number"),
        pytest.param(["content-length: -1"], id="INP-03-negative"),
        pytest.param(["content-length: 14", "content-length: 15"], id="INP-03-two-lengths"),
        pytest.param(["content-length: 14", "transfer-encoding: chunked"], id="INP-03-length-and-chunks"),
        pytest.param([f"content-length: {10**30}"], id="INP-03-beyond-64-bits"),
    ],
)
def test_a_content_length_that_is_none_is_a_400(port: int, length: list[str]):
    with Connection(port) as connection:
        connection.post(COMPLETION, GOOD, *length)
        assert connection.head()[0] == 400
    assert works(port)


def test_INP_03_a_huge_content_length_is_a_413_before_the_body_comes(port: int):
    with Connection(port) as connection:
        connection.post(COMPLETION, GOOD, "content-length: 99999999999")
        status, headers, body = connection.answer()
        assert (status, headers["connection"]) == (413, "close")
        assert error_of(body)["type"] == "invalid_request_error"
        assert connection.is_closed()
    assert works(port)


@pytest.mark.parametrize(("size", "status"), [(LIMIT, 400), (LIMIT + 1, 413), (8 * LIMIT, 413)])
@pytest.mark.parametrize("chunked", [False, True], ids=["INP-02-length", "INP-02-chunked"])
def test_the_byte_limit_is_exact(port: int, chunked: bool, size: int, status: int):
    body = body_of(size)
    with Connection(port) as connection:
        if chunked:
            pieces_ = [body[at : at + 30_000] for at in range(0, size, 30_000)]
            framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces_) + b"0\r\n\r\n"
            sender = threading.Thread(target=connection.post, args=(COMPLETION, framed, "transfer-encoding: chunked"))
        else:
            sender = threading.Thread(target=connection.post, args=(COMPLETION, body))
        sender.start()
        found, _, answer = connection.answer()
        sender.join()
        # Of LIMIT bytes exactly, the prompt is longer than the context: the limit let it through.
        assert found == status
        assert error_of(answer)["code"] == ("context_length_exceeded" if status == 400 else None)
    assert works(port)


def test_INP_02_a_client_that_asks_first_is_told_without_sending(port: int):
    with Connection(port) as connection:
        connection.post(COMPLETION, b"", f"content-length: {LIMIT + 1}", "expect: 100-continue")
        assert connection.answer()[0] == 413


def test_INP_03_a_slow_body_is_a_408_and_others_are_served_meanwhile(port: int):
    with Connection(port) as slow:
        slow.post(COMPLETION, b"{", "content-length: 14")
        assert works(port)
        slow.send(b'"')
        status, headers, body = slow.answer()
        assert (status, headers["connection"]) == (408, "close")
        assert error_of(body)
        assert slow.is_closed()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 50_000, b'{"prompt":"\xff"}', b'{"prompt":1}', b'{"prompt":"a","n":0,"stream":true}']
)
def test_INP_07_the_connection_lives_on_after_an_error(port: int, body: bytes):
    with Connection(port) as connection:
        connection.post(COMPLETION, body)
        status, _, answer = connection.answer()
        assert status == 400
        assert error_of(answer)
        connection.post(COMPLETION, GOOD)
        assert connection.answer()[0] == 200


def test_STR_12_a_bad_n_is_refused_before_any_event(port: int):
    with Connection(port) as connection:
        connection.post(COMPLETION, b'{"model":"tiny","prompt":"a","stream":true,"n":0}')
        status, headers, body = connection.answer()
        assert (status, headers["content-type"]) == (400, "application/json")
        assert error_of(body)["param"] == "n"
        connection.post(COMPLETION, GOOD)
        assert connection.answer()[0] == 200


@pytest.mark.parametrize(
    "request_line", [b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n" * 3, b"HEAD /metrics HTTP/1.1\r\nhost: x\r\n\r\n"]
)
def test_pipelined_and_head_requests_are_answered(port: int, request_line: bytes):
    with Connection(port) as connection:
        connection.send(request_line)
        for _ in range(request_line.count(b"HTTP")):
            status, headers = connection.head()
            assert status == 200
            if request_line.startswith(b"GET"):
                connection.file.read(int(headers["content-length"]))


def test_tokens_arrive_as_they_are_made_and_the_stream_ends_the_body():
    gates: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def script(*_):
        gate = asyncio.Event()
        gates.append((asyncio.get_running_loop(), gate))
        return [text_chunk("a"), gate, last_chunk("b")]

    engine = FakeEngine(script)
    with running(engine) as port, Connection(port) as connection:
        connection.post(CHAT, json.dumps({"messages": [{"role": "user", "content": "x"}], "stream": True}).encode())
        status, headers = connection.head()
        assert (status, headers["transfer-encoding"]) == (200, "chunked")
        assert b'"content":"a"' in connection.chunk()
        loop, gate = gates[0]
        loop.call_soon_threadsafe(gate.set)
        last = connection.chunk()
        assert b'"content":"b"' in last and last.endswith(b"data: [DONE]\n\n")
        assert connection.chunk() == b""
        connection.post(COMPLETION, GOOD)


@pytest.mark.parametrize("stream", [True, False], ids=["DIS-03-stream", "DIS-03-whole"])
def test_closing_the_connection_aborts_the_request_within_a_second(stream: bool):
    stuck = FakeEngine(lambda *_: [text_chunk("a"), asyncio.Event(), last_chunk()])
    closed = threading.Event()
    generate, started = stuck.generate, threading.Event()

    async def watched(*args, **options):
        found = await generate(*args, **options)
        own = found.close

        def noted():
            own()
            closed.set()

        found.close = noted
        started.set()
        return found

    stuck.generate = watched
    with running(stuck) as port:
        with Connection(port) as connection:
            connection.post(COMPLETION, json.dumps({"prompt": "a", "stream": stream}).encode())
            assert started.wait(5)
            if stream:
                connection.head()
        assert closed.wait(1)
        assert stuck.num_aborted == 1


@pytest.mark.parametrize("opening", [b"GET /health?", b"GET /health HTTP/1.1\r\nhost: x\r\nx-long: ", b"\r\n"])
def test_INP_03_a_head_without_end_is_refused_while_it_is_small(port: int, opening: bytes):
    with Connection(port) as connection:
        connection.send(opening)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(64):
                connection.send((b"\r\n" if opening == b"\r\n" else b"aa") * (1 << 19))
    assert works(port)


def test_a_head_of_many_reads_and_a_body_before_it_are_taken():
    with running(FakeEngine(pieces("x")), timeout_keep_alive_s=1) as port, Connection(port) as connection:
        long = f"x-long: {'a' * 60_000}"
        for _ in range(3):
            connection.post(COMPLETION, GOOD, long)
        assert [connection.answer()[0] for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("opening", [b"", b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nx-slow: "])
def test_INP_03_a_connection_that_asks_nothing_is_closed(opening: bytes):
    with running(FakeEngine(pieces("x")), timeout_keep_alive_s=1) as port, Connection(port) as connection:
        connection.send(opening)
        assert connection.is_closed()


@pytest.mark.parametrize("name", ["Upgrade", "upgrade", "UPGRADE"])
def test_an_offer_to_change_protocols_is_ignored_and_the_body_is_read(port: int, name: str):
    with Connection(port) as connection:
        for _ in range(2):  # The second head comes on a connection that has answered before.
            connection.post(
                COMPLETION, GOOD, "connection: Upgrade, HTTP2-Settings", f"{name}: h2c", "http2-settings: AA"
            )
            assert connection.answer()[0] == 200
