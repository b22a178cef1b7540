"""Fields: null is absent, every field has a reader or a refusal, and ranges are the client's in every mode."""

import ast
import json
from pathlib import Path

import msgspec
import pytest

from engine.client.limits import ModelLimits
from engine.frontends.openai.protocol import (
    ChatRequest,
    CompletionRequest,
    ContentPart,
    DetokenizeRequest,
    FunctionCall,
    Message,
    StreamOptions,
    TokenizeRequest,
    ToolCall,
)
from engine.frontends.openai.translate import REFUSED, SAME, chat_params, completion_params
from engine.wire.params import SamplingParams
from tests.fakes.fake_async_engine import LIMITS, FakeEngine, pieces
from tests.fakes.http import client_of

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
ASK = {CHAT: {"messages": [{"role": "user", "content": "hi"}]}, COMPLETION: {"prompt": "hi"}}
BODIES = {CHAT: ChatRequest, COMPLETION: CompletionRequest}
VOCAB = LIMITS.vocab_size


async def post(path: str, engine: FakeEngine | None = None, **fields: object):
    async with client_of(engine or FakeEngine()) as client:
        body = json.dumps({**ASK[path], **fields})
        return await client.post(path, content=body, headers={"content-type": "application/json"})


def asked(engine: FakeEngine) -> SamplingParams:
    [(_, params, _)] = engine.asked
    return params


def attributes_read() -> set[str]:
    folder = Path(__file__).parents[3] / "engine/frontends/openai"
    read = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                read.add(node.attr)
    return read


# Read where a whole message is handed to the chat template as a mapping.
BY_TEMPLATE = {"name", "tool_calls", "tool_call_id", "id", "function", "arguments"}


@pytest.mark.parametrize(
    "body",
    [ChatRequest, CompletionRequest, TokenizeRequest, DetokenizeRequest, StreamOptions, Message, ContentPart,
     ToolCall, FunctionCall],
)  # fmt: skip
def test_SMP_10_every_field_has_a_reader_or_is_refused(body: type[msgspec.Struct]):
    known = attributes_read() | SAME | set(REFUSED) | BY_TEMPLATE
    assert [name for name in body.__struct_fields__ if name not in known] == []


OPTIONAL = [
    pytest.param(path, field.name, id=f"LEN-06-{path.rpartition('/')[2]}-{field.name}")
    for path, body in BODIES.items()
    for field in msgspec.structs.fields(body)
    if not field.required
]


@pytest.mark.parametrize(("path", "field"), OPTIONAL)
async def test_null_is_the_same_as_absent(path: str, field: str):
    absent, null = FakeEngine(), FakeEngine()
    first = await post(path, absent)
    second = await post(path, null, **{field: None})
    assert (first.status_code, second.status_code) == (200, 200), second.text
    assert asked(null) == asked(absent)
    changing = ("id", "created")
    assert {k: v for k, v in first.json().items() if k not in changing} == {
        k: v for k, v in second.json().items() if k not in changing
    }


@pytest.mark.parametrize("field", sorted(REFUSED))
async def test_a_field_of_a_later_version_is_refused_by_name(field: str):
    path = CHAT if field in ChatRequest.__struct_fields__ else COMPLETION
    value = "\n" if field == "suffix" else {"some": "thing"}
    answer = await post(path, **{field: value})
    assert answer.status_code == 400
    assert (answer.json()["error"]["param"], answer.json()["error"]["code"]) == (field, "unsupported_parameter")
    assert f"`{field}`" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, {"tool_choice": "none"}),
        (CHAT, {"tool_choice": "auto"}),
        (CHAT, {"response_format": {"type": "text"}}),
        (COMPLETION, {"suffix": ""}),
        (COMPLETION, {"use_beam_search": False}),
        (CHAT, {"parallel_tool_calls": True, "user": "me", "store": False, "metadata": {"a": "b"}}),
    ],
)
async def test_values_that_ask_for_nothing_pass(path: str, fields: dict):
    assert (await post(path, **fields)).status_code == 200


@pytest.mark.parametrize("field", ["tools", "functions"])
async def test_an_empty_list_of_tools_is_refused_too(field: str):
    assert (await post(CHAT, **{field: []})).status_code == 400


@pytest.mark.parametrize(
    ("path", "fields", "max_tokens"),
    [
        pytest.param(COMPLETION, {}, 16, id="LEN-06-completions-default"),
        pytest.param(CHAT, {}, None, id="LEN-06-chat-default"),
        pytest.param(CHAT, {"max_completion_tokens": 3}, 3, id="LEN-09-new-name"),
        pytest.param(CHAT, {"max_tokens": 9, "max_completion_tokens": 3}, 3, id="LEN-09-new-name-wins"),
        pytest.param(CHAT, {"max_tokens": 9, "max_completion_tokens": None}, 9, id="LEN-09-null-does-not-win"),
        pytest.param(COMPLETION, {"max_completion_tokens": 3}, 3, id="LEN-09-completions"),
    ],
)
async def test_length_of_the_answer(path: str, fields: dict, max_tokens: int | None):
    engine = FakeEngine()
    assert (await post(path, engine, **fields)).status_code == 200
    assert asked(engine).max_tokens == max_tokens


def test_absent_fields_come_from_the_models_defaults_and_present_ones_win():
    defaults = SamplingParams(temperature=0.6, top_k=20, repetition_penalty=1.1)
    fields = ChatRequest(messages=[], temperature=1.5, top_k=0)
    params = chat_params(fields, defaults)
    assert (params.temperature, params.top_k, params.repetition_penalty) == (1.5, 0, 1.1)


def test_every_shared_field_reaches_the_sampling_params():
    given = {
        "n": 2, "temperature": 0.5, "top_p": 0.5, "top_k": 5, "min_p": 0.1, "presence_penalty": 0.1,
        "frequency_penalty": 0.2, "repetition_penalty": 1.5, "seed": 7, "stop": ["x"], "stop_token_ids": [1],
        "bad_words": ["w"], "allowed_token_ids": [3], "include_stop_str_in_output": True, "ignore_eos": True,
        "min_tokens": 1, "skip_special_tokens": False, "spaces_between_special_tokens": False, "prompt_logprobs": 2,
    }  # fmt: skip
    assert set(given) == SAME
    for body in (ChatRequest(messages=[], **given), CompletionRequest(prompt="a", **given)):
        make = chat_params if isinstance(body, ChatRequest) else completion_params
        params = msgspec.structs.asdict(make(body, SamplingParams()))
        assert {name: params[name] for name in given} == given


async def test_logit_bias_keys_are_token_ids():
    engine = FakeEngine()
    assert (await post(COMPLETION, engine, logit_bias={"5": 1, "7": -2.5})).status_code == 200
    assert asked(engine).logit_bias == {5: 1.0, 7: -2.5}


@pytest.mark.parametrize("key", ["five", "5.0", "", " 5", "5_0", "٥", "9" * 400])
async def test_logit_bias_of_another_key_is_refused(key: str):
    answer = await post(COMPLETION, logit_bias={key: 1})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "logit_bias"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        pytest.param(COMPLETION, {"logprobs": 0}, 200, id="LGP-06-completions-0"),
        pytest.param(CHAT, {"logprobs": True}, 200, id="LGP-06-chat-true"),
        pytest.param(CHAT, {"logprobs": True, "top_logprobs": 0}, 200, id="LGP-06-chat-true-0"),
        pytest.param(CHAT, {"top_logprobs": 3}, 400, id="LGP-06-chat-alone"),
        pytest.param(CHAT, {"logprobs": False, "top_logprobs": 3}, 400, id="LGP-06-chat-false"),
    ],
)
async def test_logprobs_of_zero_alternatives_are_the_tokens_own(path: str, fields: dict, status: int, stream: bool):
    answer = await post(path, FakeEngine(pieces("ab")), stream=stream, **fields)
    assert answer.status_code == status
    if status == 400:
        assert answer.json()["error"]["param"] == "top_logprobs"
    elif path == CHAT:
        assert '"top_logprobs":[]' in answer.text and '"logprob":-0.5' in answer.text
    else:
        assert '"top_logprobs":[{},{}]' in answer.text and '"token_logprobs":[-0.5,-0.5]' in answer.text


HUGE = 2**63
BAD_VALUES = [
    *[pytest.param("seed", value, id=f"SMP-04-seed-{value!r}") for value in (10**20, "100", -HUGE - 1, 1.5, True)],
    *[
        pytest.param(field, [value], id=f"SMP-07-{field}-{value}")
        for field in ("stop_token_ids", "allowed_token_ids")
        for value in (VOCAB, -1, 2**40)
    ],
    *[pytest.param("logit_bias", {str(value): 1}, id=f"SMP-07-logit_bias-{value}") for value in (VOCAB, -1, 2**40)],
    *[pytest.param("repetition_penalty", value, id=f"SMP-08-{value}") for value in (0, -1, 1e-320)],
    *[pytest.param("presence_penalty", value, id=f"SMP-08-presence-{value}") for value in (2.0001, -2.0001)],
    *[pytest.param("frequency_penalty", value, id=f"SMP-08-frequency-{value}") for value in (2.0001, -2.0001)],
    pytest.param("stop", ["a", "b", "c", "d", "e"], id="STP-10-five-stop-strings"),
    pytest.param("bad_words", ["x"] * 50_000, id="STP-10-bad-words"),
    pytest.param("n", 0, id="STR-12-n-0"),
    pytest.param("n", 10**6, id="STR-12-n-million"),
    *[pytest.param("prompt_logprobs", value, id=f"INP-06-{value}") for value in (-1, VOCAB, 10**6)],
    pytest.param("priority", 1, id="priority-on-a-first-come-server"),
    pytest.param("cache_salt", "a/b", id="cache-salt"),
    pytest.param("cache_salt", "", id="cache-salt-empty"),
    pytest.param("max_tokens", 0, id="LEN-07-zero-without-echo"),
    pytest.param("temperature", -0.1, id="temperature"),
    pytest.param("request_id", "a b", id="request-id-with-a-space"),
]


BAD_IN = [
    pytest.param(path, *bad.values, id=f"{bad.id}-{body.__name__}")
    for bad in BAD_VALUES
    for path, body in BODIES.items()
    if bad.values[0] in body.__struct_fields__
]


@pytest.mark.parametrize(("path", "field", "value"), BAD_IN)
async def test_a_value_out_of_range_is_a_400_that_names_the_field(path: str, field: str, value: object):
    engine = FakeEngine()
    answer = await post(path, engine, stream=field != "prompt_logprobs", **{field: value})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["param"] == field
    assert engine.asked == [] and engine.open_streams == []


@pytest.mark.parametrize("field", ["repetition_penalty", "presence_penalty", "frequency_penalty"])
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"], ids=lambda value: f"SMP-08-{value}")
async def test_a_number_that_json_does_not_have_is_refused(field: str, value: str):
    async with client_of(FakeEngine()) as client:
        body = f'{{"prompt":"a","{field}":{value}}}'
        answer = await client.post(COMPLETION, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400


@pytest.mark.parametrize("seed", [HUGE - 1, -HUGE], ids=["SMP-04-max", "SMP-04-min"])
async def test_the_ends_of_a_range_are_in_it(seed: int):
    engine = FakeEngine()
    assert (await post(COMPLETION, engine, seed=seed)).status_code == 200
    assert asked(engine).seed == seed


async def test_STP_10_half_a_million_stop_strings_are_refused_before_anything_is_made_of_them():
    engine = FakeEngine()
    answer = await post(COMPLETION, engine, stop=[f"x{number}" for number in range(500_000)])
    assert answer.status_code == 400
    assert engine.asked == []


@pytest.mark.parametrize("top_logprobs", [21, 10**6], ids=["INP-06-21", "INP-06-million"])
async def test_more_alternatives_than_the_server_gives_are_refused(top_logprobs: int):
    answer = await post(CHAT, logprobs=True, top_logprobs=top_logprobs)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": False, "stream_options": {}}, "stream_options"),
        ({"stream": True, "prompt_logprobs": 0}, "prompt_logprobs"),
    ],
)
@pytest.mark.parametrize("path", ASK)
async def test_fields_that_need_or_exclude_streaming(path: str, fields: dict, param: str):
    answer = await post(path, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize(
    "prompt", [[97] * 4096, "x" * 4096, "x" * 9000], ids=["TOK-07-ids", "TOK-07-text", "TOK-07-long-text"]
)
async def test_a_prompt_without_room_for_an_answer_says_so(prompt: object):
    answer = await post(COMPLETION, prompt=prompt)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "4096" in error["message"]


async def test_TOK_07_a_chat_is_never_cut_unless_asked():
    turns = [{"role": "user", "content": "x" * 5000}]
    assert (await post(CHAT, messages=turns)).json()["error"]["code"] == "context_length_exceeded"
    engine = FakeEngine()
    assert (await post(CHAT, engine, messages=turns, truncate_prompt_tokens=-1)).status_code == 200
    assert len(engine.asked[0][0]) == LIMITS.max_prompt_len


async def test_priority_and_salt_reach_the_engine():
    engine = FakeEngine()
    await post(COMPLETION, engine, cache_salt="tenant")
    assert engine.asked[0][2]["cache_salt"] == "tenant"


@pytest.mark.parametrize("model", ["tiny", "alias", "", None])
async def test_any_name_of_the_model_answers_under_its_first(model: str | None):
    assert (await post(COMPLETION, model=model)).json()["model"] == "tiny"


async def test_another_model_is_a_404_that_lists_those_served():
    answer = await post(COMPLETION, model="gpt-4")
    error = answer.json()["error"]
    assert answer.status_code == 404
    assert (error["param"], error["code"]) == ("model", "model_not_found")
    assert "tiny" in error["message"] and "gpt-4" not in error["message"]


@pytest.mark.parametrize(("path", "prefix"), [(CHAT, "chatcmpl-"), (COMPLETION, "cmpl-")])
async def test_the_answers_id_is_made_from_the_request_id(path: str, prefix: str):
    assert (await post(path, request_id="mine")).json()["id"] == prefix + "mine"
    async with client_of(FakeEngine()) as client:
        answer = await client.post(path, json=ASK[path], headers={"x-request-id": "header"})
        assert answer.json()["id"] == prefix + "header"
        assert answer.headers["x-request-id"] == "header"
        answer = await client.post(path, json=ASK[path])
        assert answer.json()["id"] == prefix + answer.headers["x-request-id"]


def test_limits_of_the_fake_are_real():
    assert isinstance(LIMITS, ModelLimits)
