"""OpenAI's own Python client, unchanged, against a running server."""

from collections.abc import Iterator

import httpx
import openai
import pytest

from engine.base.errors import CapacityError, EngineFault
from tests.api.running_server import running
from tests.fakes.fake_async_engine import FakeEngine, pieces, text_chunk

HI = [{"role": "user", "content": "hi"}]
KEY = "sesame"


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(pieces("Hello", " world", "!"))


@pytest.fixture
def client(engine: FakeEngine) -> Iterator[openai.OpenAI]:
    with running(engine, api_key=(KEY,)) as port:
        http = httpx.Client(trust_env=False)
        yield openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY, max_retries=0, http_client=http)


def test_models_can_be_listed_and_retrieved(client: openai.OpenAI):
    assert [model.id for model in client.models.list()] == ["tiny", "alias"]
    assert client.models.retrieve("alias").id == "alias"


def test_chat_of_two_choices(client: openai.OpenAI):
    answer = client.chat.completions.create(model="tiny", messages=HI, n=2, logprobs=True, top_logprobs=2)
    assert [choice.message.content for choice in answer.choices] == ["Hello world!"] * 2
    assert answer.choices[1].logprobs.content[0].top_logprobs[1].token == "I"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 24
    assert answer._request_id == answer.id.removeprefix("chatcmpl-")


def test_chat_stream_with_usage(client: openai.OpenAI):
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(model="tiny", messages=HI, stream=True, stream_options=options))
    said = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert "".join(text or "" for text in said) == "Hello world!"
    assert chunks[-1].usage.completion_tokens == 12


def test_the_stream_helper_builds_the_whole_answer(client: openai.OpenAI):
    with client.chat.completions.stream(model="tiny", messages=HI) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_completion()
    assert answer.choices[0].message.content == "Hello world!"
    assert answer.choices[0].finish_reason == "stop"


def test_completions_of_token_ids_with_echo(client: openai.OpenAI):
    answer = client.completions.create(model="tiny", prompt=[[97], [98]], echo=True, logprobs=1)
    assert [choice.text for choice in answer.choices] == ["aHello world!", "bHello world!"]
    assert answer.choices[0].logprobs.token_logprobs[0] is None


def test_completion_stream(client: openai.OpenAI):
    said = [chunk.choices[0].text for chunk in client.completions.create(model="tiny", prompt="a", stream=True)]
    assert said == ["Hello", " world", "!"]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"model": "gpt-4"}, openai.NotFoundError),
        ({"temperature": 3}, openai.BadRequestError),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, openai.BadRequestError),
    ],
    ids=["404", "400", "unsupported"],
)
def test_refusals_are_the_clients_own_exceptions(client: openai.OpenAI, fields: dict, error: type):
    with pytest.raises(error) as caught:
        client.chat.completions.create(**{"model": "tiny", "messages": HI, **fields})
    assert caught.value.body["message"]


def test_a_wrong_key_is_an_authentication_error(client: openai.OpenAI):
    with pytest.raises(openai.AuthenticationError) as caught:
        client.with_options(api_key="wrong").models.list()
    assert caught.value.code == "invalid_api_key"


def test_a_full_queue_is_retried_when_the_server_says(client: openai.OpenAI, engine: FakeEngine):
    engine.refusal = CapacityError("the queue is full", retry_after_s=1)
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model="tiny", messages=HI)
    assert caught.value.status_code == 503
    assert caught.value.response.headers["retry-after"] == "1"


def test_STR_11_an_error_in_a_stream_reaches_the_caller(client: openai.OpenAI, engine: FakeEngine):
    engine.script = lambda *_: [text_chunk("a"), EngineFault("the core is gone")]
    stream = client.chat.completions.create(model="tiny", messages=HI, stream=True)
    with pytest.raises(openai.APIError, match="the core is gone"):
        list(stream)
