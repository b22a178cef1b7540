"""Bodies: JSON and nothing else, or a 4xx that quotes none of it."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from engine.base.errors import ClientError
from engine.frontends.openai.body import MAX_STRINGS, check_headers, decode
from engine.frontends.openai.protocol import chat_decoder, completion_decoder
from tests.fakes.fake_async_engine import FakeEngine
from tests.fakes.http import client_of

BAD_BODIES = [
    pytest.param(b"", id="INP-07-empty"),
    pytest.param(b"{", id="INP-07-truncated"),
    pytest.param(b"[]", id="INP-07-list"),
    pytest.param(b"null", id="INP-07-null"),
    pytest.param(b'"a"', id="INP-07-string"),
    pytest.param(b'{"prompt":"a"} {}', id="INP-07-two-documents"),
    pytest.param(b"[" * 100_000, id="INP-07-deep-list"),
    pytest.param(b'{"prompt":"a","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="INP-07-deep-unknown-field"),
    pytest.param(b'{"prompt":"a","prompt":"b"}', id="INP-07-duplicate-key"),
    pytest.param(b'{"prompt":"a","x":{"y":1,"y":2}}', id="INP-07-duplicate-key-inside"),
    pytest.param(b'{"prompt":"a","prom\\u0070t":"b"}', id="INP-07-duplicate-key-escaped"),
    pytest.param(b"1e400", id="INP-07-bare-number"),
    pytest.param(b'{"prompt":"a","temperature":1e400}', id="INP-07-1e400"),
    pytest.param(b'{"prompt":"a","temperature":NaN}', id="INP-07-nan"),
    pytest.param(b'{"prompt":"a","temperature":-Infinity}', id="INP-07-infinity"),
    pytest.param(b'{"prompt":"a","x":NaN}', id="INP-07-nan-in-unknown-field"),
    pytest.param(b'{"prompt":"\\ud800"}', id="INP-07-lone-surrogate"),
    pytest.param(b'{"prompt":"a\x00"}', id="INP-07-raw-nul"),
    pytest.param(b'{"prompt":"a\\u0000"}', id="INP-07-escaped-nul"),
    pytest.param(b'{"prompt":"\\\\\\u0000"}', id="INP-07-escaped-nul-after-a-backslash"),
    pytest.param(b'{"model":"m","prompt":"\xff\xfe\x5c","max_tokens":1}', id="UNI-03-invalid-utf-8"),
    pytest.param(b'{"prompt":"a","x":"\xff"}', id="UNI-03-invalid-utf-8-in-unknown-field"),
    pytest.param('{"prompt":"你好"}'.encode("gbk"), id="UNI-04-gbk"),
    pytest.param('{"prompt":"a"}'.encode("utf-16"), id="UNI-04-utf-16-with-bom"),
    pytest.param(b'{"prompt":"a","seed":' + b"9" * 5000 + b"}", id="INP-07-number-of-5000-digits"),
    pytest.param(b'{"prompt":[' + b'"",' * MAX_STRINGS + b'""]}', id="INP-07-many-strings"),
    pytest.param(b"{}", id="INP-07-missing-prompt"),
]


@pytest.mark.parametrize("body", BAD_BODIES)
async def test_bad_body_is_a_small_400_and_the_next_request_works(body: bytes):
    async with client_of(FakeEngine()) as client:
        answer = await client.post("/v1/completions", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        assert len(answer.content) < 4096
        assert "Traceback" not in answer.text
        assert (await client.post("/v1/completions", json={"prompt": "a"})).status_code == 200


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\\u0000", id="INP-07-a-backslash-and-u0000-are-text"),
        pytest.param("😀", id="UNI-04-astral-character"),
    ],
)
def test_text_that_only_looks_forbidden_passes(text: str):
    fields = decode(json.dumps({"prompt": text}).encode(), completion_decoder)
    assert fields.prompt == text


async def test_INP_01_many_wrong_messages_make_one_short_error():
    messages = [{"role": f"role{place}", "content": 123} for place in range(2000)]
    async with client_of(FakeEngine()) as client:
        answer = await client.post("/v1/chat/completions", json={"messages": messages})
    assert answer.status_code == 400
    assert len(answer.content) < 4096
    assert answer.json()["error"]["param"] == "messages[0].content"


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=["SMP-03-nan", "SMP-03-inf"])
async def test_error_for_a_non_finite_number_is_valid_json_without_it(value: float):
    body = json.dumps({"prompt": "a", "temperature": value})
    async with client_of(FakeEngine()) as client:
        answer = await client.post("/v1/completions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert msgspec.json.decode(answer.content)
    assert "NaN" not in answer.text and "Infinity" not in answer.text


SECRET = "hunter2-tripwire"


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "a", "seed": SECRET},
        {"prompt": "a", SECRET: {"a": 1}, "stop": 3},
        {"prompt": {SECRET: 1}},
        {"prompt": "a", "model": SECRET},
        {"prompt": "a", "logit_bias": {SECRET: 1.0}},
        {"prompt": "a", "request_id": SECRET + "\n"},
        {"prompt": "a", "response_format": {"type": SECRET}},
        {"prompt": ["a", 1, SECRET]},
    ],
    ids=lambda body: "UNI-03-" + "-".join(body),
)
async def test_no_error_repeats_what_the_client_sent(body: dict):
    async with client_of(FakeEngine()) as client:
        answer = await client.post("/v1/completions", json=body)
    assert answer.status_code >= 400
    assert SECRET not in answer.text


TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, 2]))
def test_any_json_in_an_unknown_field_is_ignored(value: object, indent: int | None):
    body = json.dumps({"prompt": "a", "somebody's field": value}, indent=indent)
    assert decode(body.encode(), completion_decoder).prompt == "a"


@given(JSON, TEXT)
def test_INP_07_a_key_given_twice_is_found_at_any_depth(value: object, key: str):
    pair = f"{json.dumps(key)}:{json.dumps(value)}"
    body = f'{{"prompt":"a","x":[{{{pair},{pair}}}]}}'
    with pytest.raises(ClientError, match="twice"):
        decode(body.encode(), completion_decoder)


@given(st.text(st.sampled_from('\\u0x\x00"/'), max_size=30))
def test_INP_07_nul_is_refused_where_json_means_it_and_nowhere_else(text: str):
    body = json.dumps({"prompt": text + "\\u0000" + text}).encode()
    if "\x00" in text:
        with pytest.raises(ClientError, match="NUL"):
            decode(body, completion_decoder)
    else:
        assert decode(body, completion_decoder).prompt == text + "\\u0000" + text


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_the_clients_error(data: bytes):
    try:
        decode(b'{"messages":[{"role":"user","content":"' + data, chat_decoder)
    except ClientError as error:
        assert error.status == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"content-type": "application/json; charset=latin-1"}, 400, id="UNI-04-latin-1"),
        pytest.param({"content-type": 'application/json; charset="gbk"'}, 400, id="UNI-04-gbk"),
        pytest.param({"content-type": "text/plain"}, 400, id="INP-02-not-json"),
        pytest.param({"content-type": "multipart/form-data; boundary=x"}, 400, id="INP-02-form"),
        pytest.param({"content-encoding": "gzip"}, 415, id="INP-02-gzip"),
    ],
)
def test_headers_of_another_format_are_refused(headers: dict, status: int):
    with pytest.raises(ClientError) as caught:
        check_headers(Headers(headers))
    assert caught.value.status == status


@pytest.mark.parametrize(
    "kind",
    ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"', "application/x+json"],
)
def test_headers_of_json_pass(kind: str):
    check_headers(Headers({"content-type": kind}))
