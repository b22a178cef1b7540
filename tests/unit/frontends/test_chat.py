"""Chat: what of a conversation reaches the template, and what is refused before it."""

import pytest

from tests.fakes.fake_async_engine import BOS, FakeEngine
from tests.fakes.http import client_of

PATH = "/v1/chat/completions"
USER = {"role": "user", "content": "hi"}


async def post(engine: FakeEngine, **fields: object):
    async with client_of(engine) as client:
        return await client.post(PATH, json={"messages": [USER], **fields})


@pytest.mark.parametrize(
    ("message", "param"),
    [
        pytest.param({"role": "narrator", "content": "x"}, "messages[0].role", id="TOK-06-unknown-role"),
        pytest.param({"role": "user"}, "messages[0].content", id="user-without-content"),
        pytest.param({"role": "tool", "content": None}, "messages[0].content", id="tool-without-content"),
        pytest.param({"content": "x"}, "messages[0].role", id="no-role"),
        pytest.param({"role": "user", "content": 3}, "messages[0].content", id="INP-01-number"),
        pytest.param({"role": "user", "content": [{"type": "text"}]}, "messages[0].content", id="part-without-text"),
        pytest.param({"role": "user", "content": [{"text": "x"}]}, "messages[0].content[0].type", id="part-no-type"),
        pytest.param("hi", "messages[0]", id="not-an-object"),
    ],
)
async def test_a_message_that_no_template_can_read_is_refused(message: object, param: str):
    answer = await post(FakeEngine(), messages=[message])
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


async def test_SEC_06_a_part_that_names_a_url_is_refused():
    part = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}
    answer = await post(FakeEngine(), messages=[{"role": "user", "content": [part]}])
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported_value")
    assert "text" in answer.json()["error"]["message"] and "169" not in answer.text


async def test_no_messages_are_refused():
    answer = await post(FakeEngine(), messages=[])
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "messages")


async def test_roles_and_parts_reach_the_template_as_they_came():
    turns = [
        {"role": "system", "content": "s"},
        {"role": "developer", "content": "d"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "r", "tool_call_id": "1"},
    ]
    engine = FakeEngine()
    assert (await post(engine, messages=turns)).status_code == 200
    [(seen, _)] = engine.conversations
    assert [one["role"] for one in seen] == ["system", "developer", "user", "assistant", "tool"]
    assert seen[2]["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert seen[3]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    assert seen[4]["tool_call_id"] == "1"


@pytest.mark.parametrize(
    ("fields", "opens", "continues"),
    [
        ({}, True, False),
        ({"add_generation_prompt": False}, False, False),
        ({"continue_final_message": True}, False, True),
        ({"continue_final_message": True, "add_generation_prompt": False}, False, True),
    ],
)
async def test_how_the_prompt_ends(fields: dict, opens: bool, continues: bool):
    engine = FakeEngine()
    await post(engine, **fields)
    options = engine.conversations[0][1]
    assert (options["add_generation_prompt"], options["continue_final_message"]) == (opens, continues)


async def test_a_prompt_cannot_end_in_both_ways():
    answer = await post(FakeEngine(), continue_final_message=True, add_generation_prompt=True)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "continue_final_message")


async def test_template_variables_and_reasoning_effort_reach_the_template():
    engine = FakeEngine()
    await post(engine, chat_template_kwargs={"enable_thinking": False}, reasoning_effort="low")
    assert engine.conversations[0][1]["template_kwargs"] == {"enable_thinking": False, "reasoning_effort": "low"}


@pytest.mark.parametrize(("adds", "number"), [(None, 1), (False, 1), (True, 2)])
async def test_TOK_01_special_tokens_come_from_the_template_alone_unless_asked(adds: bool | None, number: int):
    engine = FakeEngine()
    await post(engine, add_special_tokens=adds)
    assert list(engine.asked[0][0]).count(BOS) == number


async def test_chat_prompt_logprobs_stand_beside_the_choices():
    answer = (await post(FakeEngine(), prompt_logprobs=0)).json()
    assert len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"]
    assert answer["prompt_logprobs"][0] is None
