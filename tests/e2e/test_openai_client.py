"""The official client against a real server with the default model."""

from __future__ import annotations

import openai
import pytest

from tests.e2e.serving import Server

pytestmark = pytest.mark.xdist_group("server")

MODEL = "SmolLM2-135M-Instruct"
QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
GREEDY = {"temperature": 0, "max_tokens": 24}


def test_the_model_is_listed_and_can_be_retrieved(server: Server) -> None:
    client = server.openai()
    name = client.models.list().data[0].id
    assert client.models.retrieve(name).id == name


def test_a_chat_answers_with_usage_and_a_reason(server: Server) -> None:
    answer = server.openai().chat.completions.create(model=MODEL, messages=QUESTION, **GREEDY)
    choice = answer.choices[0]
    assert "Paris" in (choice.message.content or "")
    assert choice.finish_reason in ("stop", "length")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_streamed_chat_says_the_same_as_a_whole_one(server: Server) -> None:
    client = server.openai()
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, **GREEDY)
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=QUESTION, stream=True, stream_options={"include_usage": True}, **GREEDY
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert text == whole.choices[0].message.content
    assert reasons[-1] == whole.choices[0].finish_reason and not any(reasons[:-1])
    assert whole.usage is not None and chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_a_completion_takes_text_lists_and_token_ids(server: Server) -> None:
    client = server.openai()
    ids = client.post("/tokenize", cast_to=object, body={"prompt": "The sky is"})["tokens"]  # type: ignore[index]  # Not a route of OpenAI's.
    one = client.completions.create(model=MODEL, prompt="The sky is", **GREEDY).choices[0].text
    many = client.completions.create(model=MODEL, prompt=["The sky is", "Once upon a time"], **GREEDY)
    tokens = client.completions.create(model=MODEL, prompt=ids, **GREEDY).choices[0].text
    assert tokens == one == many.choices[0].text
    assert [choice.index for choice in many.choices] == [0, 1]


def test_logprobs_of_a_chat_stand_beside_each_token(server: Server) -> None:
    answer = server.openai().chat.completions.create(
        model=MODEL, messages=QUESTION, logprobs=True, top_logprobs=3, **GREEDY
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert answer.usage is not None and len(logprobs.content) == answer.usage.completion_tokens
    for entry in logprobs.content:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob == pytest.approx(max(top.logprob for top in entry.top_logprobs))


def test_two_answers_to_one_prompt_have_their_own_indices(server: Server) -> None:
    answer = server.openai().chat.completions.create(
        model=MODEL, messages=QUESTION, n=2, temperature=1.0, seed=7, max_tokens=12
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.choices[0].message.content != answer.choices[1].message.content


def test_a_seed_gives_the_same_answer_again(server: Server) -> None:
    client = server.openai()
    once, again = (
        client.chat.completions.create(model=MODEL, messages=QUESTION, seed=11, temperature=0.9, max_tokens=16)
        for _ in range(2)
    )
    assert once.choices[0].message.content == again.choices[0].message.content


def test_a_stop_string_ends_the_answer_and_is_not_in_it(server: Server) -> None:
    client = server.openai()
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, **GREEDY).choices[0].message.content
    assert whole and "capital" in whole
    cut = client.chat.completions.create(model=MODEL, messages=QUESTION, stop="capital", **GREEDY).choices[0]
    assert cut.message.content == whole[: whole.index("capital")]
    assert cut.finish_reason == "stop"


def test_errors_are_what_the_client_expects(server: Server) -> None:
    client = server.openai()
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=9)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-9", messages=QUESTION)
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model=MODEL, prompt="word " * 9000, max_tokens=1)
    assert long.value.code == "context_length_exceeded"


def test_a_stream_can_be_left_and_the_server_is_idle_again(server: Server) -> None:
    stream = server.openai().chat.completions.create(model=MODEL, messages=QUESTION, stream=True, max_tokens=400)
    next(iter(stream))
    stream.close()
