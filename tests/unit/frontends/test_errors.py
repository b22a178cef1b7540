"""Errors: one shape everywhere, and nothing in it that is nobody's business."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import CapacityError, ClientError, EngineDead, EngineFault, ModelNotFound, PromptTooLong
from engine.frontends.openai.errors import ErrorBody, clean, describe, problem
from tests.fakes.fake_async_engine import FakeEngine
from tests.fakes.http import client_of

LEAKS = re.compile(r'/home|/root|/usr|\.py", line|Traceback|0x[0-9a-f]{6}')


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (ClientError("no", param="stop"), 400, "invalid_request_error", None),
        (ModelNotFound("no", code="model_not_found"), 404, "invalid_request_error", "model_not_found"),
        (
            PromptTooLong("long", code="context_length_exceeded"),
            400,
            "invalid_request_error",
            "context_length_exceeded",
        ),
        (CapacityError("full", retry_after_s=7), 503, "service_unavailable_error", None),
        (CapacityError("often", status=429), 429, "rate_limit_error", None),
        (EngineFault("broken"), 500, "server_error", None),
        (EngineDead("gone"), 503, "service_unavailable_error", None),
        (RuntimeError("secret"), 500, "server_error", None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_every_error_class_has_its_answer(error: Exception, status: int, kind: str, code: str | None):
    found = describe(error)
    assert (found.status, found.body.error.type, found.body.error.code) == (status, kind, code)


def test_overload_says_when_to_come_back():
    assert describe(CapacityError("full", retry_after_s=7)).headers["retry-after"] == "7"


def test_what_nobody_meant_to_raise_is_not_told():
    assert "secret" not in describe(RuntimeError("secret")).body.error.message


@pytest.mark.parametrize(
    "message",
    [
        "cannot open /home/me/models/x.gguf",
        'File "/root/engine/worker.py", line 3, in run',
        "worker died at <object at 0x7f5d65097990>",
        "Traceback (most recent call last):\n  File x",
        r"C:\Users\me\model.gguf is missing",
        "see engine/worker/run.py:33",
        "file:///usr/lib/x.so",
    ],
)
def test_SEC_04_messages_lose_paths_addresses_and_tracebacks(message: str):
    assert not LEAKS.search(clean(message))
    assert "me" not in clean(message).split()


@pytest.mark.parametrize("message", ["`n` must be 1 when temperature is 0.", "`a/b` is 3/4 of application/json"])
def test_plain_messages_stay_as_they_are(message: str):
    assert clean(message) == message


@given(st.text(st.characters(exclude_categories=[])), st.text(st.characters(exclude_categories=[])))
def test_UNI_03_any_message_makes_a_small_json_body(message: str, param: str):
    body = problem(400, message * 40, param=param).response().body
    assert len(body) < 4096
    assert msgspec.json.decode(body, type=ErrorBody)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("GET", "/v1/completions", 405),
        ("DELETE", "/health", 405),
        ("PATCH", "/v1/models", 405),
    ],
    ids=lambda value: f"INP-02-{value}" if isinstance(value, int) else None,
)
async def test_the_frameworks_own_errors_have_the_same_shape(method: str, path: str, status: int):
    async with client_of(FakeEngine()) as client:
        answer = await client.request(method, path)
    assert answer.status_code == status
    assert msgspec.json.decode(answer.content, type=ErrorBody, strict=True)


async def test_a_bug_is_a_500_in_the_same_shape_with_its_request_id():
    engine = FakeEngine(lambda prompt, params: [KeyError("/root/secret")])
    async with client_of(engine) as client:
        answer = await client.post("/v1/completions", json={"prompt": "a"}, headers={"x-request-id": "mine"})
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"] == "mine"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_by_the_engine_keeps_its_status_also_when_streaming(stream: bool):
    engine = FakeEngine()
    engine.refusal = CapacityError("the queue is full", retry_after_s=3)
    async with client_of(engine) as client:
        answer = await client.post("/v1/completions", json={"prompt": "a", "stream": stream})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "3"
    assert answer.headers["content-type"] == "application/json"
