"""HTTP down to the core's end: the real client between the routes and a core that a test writes."""

import asyncio
import json
from collections.abc import Callable, Sequence

import httpx
import pytest

from engine.base.clock import SystemClock
from engine.base.config import FrontendConfig
from engine.client.async_engine import AsyncEngine
from engine.frontends.openai import create_app
from engine.text import ChatTemplate
from engine.wire.output import FinishReason
from engine.wire.request import Abort, Submit, ToCore
from engine.wire.tokens import unpack
from tests.fakes.http import Call, chunks
from tests.fakes.scripted_core import ScriptedCore, logprob_rows
from tests.unit.client.models import CONTEXT, EOS, VOCAB, admission, bare_admission, engine, tokenizer

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
ASK = {CHAT: {"messages": [{"role": "user", "content": "hi"}]}, COMPLETION: {"prompt": "hi"}}
Answer = Callable[["TalkingCore", Submit], None]


class TalkingCore(ScriptedCore):
    """Answers each Submit at once, as `answer` says."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer_with = answer

    def send(self, message: ToCore) -> None:
        super().send(message)
        if isinstance(message, Submit):
            self.answer_with(self, message)


def says(text: str, finish: FinishReason = FinishReason.END) -> Answer:
    """One token a step, then the end token; logprobs where they were asked for."""

    def answer(core: TalkingCore, submit: Submit) -> None:
        ids = [*tokenizer().encode(text, add_special_tokens=False), EOS][: submit.sampling.max_tokens]
        prompt = [*unpack(submit.tokens)]
        scored = scores(prompt[1:], submit.sampling.prompt_logprobs)
        for place, token in enumerate(ids):
            is_last = place == len(ids) - 1
            ended = (finish if token == EOS else FinishReason.LENGTH) if is_last else None
            rows = scores([token], submit.sampling.logprobs)
            core.output(
                [
                    core.delta(
                        submit.request, [token], ended, logprobs=rows, prompt_logprobs=scored if not place else None
                    )
                ]
            )

    return answer


def scores(tokens: Sequence[int], width: int | None):
    if width is None:
        return None
    rows = [[(token, -1.0), *((place, -2.0 - place) for place in range(width))] for token in tokens]
    return logprob_rows(rows, [1] * len(tokens))


def hangs(_core: TalkingCore, _submit: Submit) -> None:
    """Never answers."""


def served(core: ScriptedCore, gate=None, **fields: object) -> tuple[AsyncEngine, httpx.AsyncClient]:
    made = engine(core, gate, SystemClock())
    app = create_app(made, FrontendConfig(**fields))
    return made, httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server")


async def post(core: ScriptedCore, path: str, **fields: object):
    _, client = served(core)
    async with client:
        answer = await client.post(path, json={**ASK[path], **fields})
    assert core.running == {}, "a request that nobody ended"
    return answer


def text_of(answer: httpx.Response) -> str:
    choice = answer.json()["choices"][0]
    return choice["text"] if "text" in choice else choice["message"]["content"]


def said(answer: httpx.Response) -> str:
    choices = [choice for chunk in chunks(answer.content) for choice in chunk["choices"]]
    return "".join(choice["text"] if "text" in choice else choice["delta"].get("content", "") for choice in choices)


@pytest.mark.parametrize("path", ASK)
async def test_an_answer_comes_whole_and_streamed_alike(path: str):
    text = "The quick brown fox 😀"
    whole = await post(TalkingCore(says(text)), path, max_tokens=40)
    streamed = await post(TalkingCore(says(text)), path, max_tokens=40, stream=True)
    assert text_of(whole) == said(streamed) == text
    assert whole.json()["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("path", ASK)
async def test_STP_01_no_letter_of_a_stop_string_is_sent(path: str):
    core = TalkingCore(says("JKLMNOPQRS and more"))
    streamed = await post(core, path, max_tokens=40, stream=True, stop=["MNOPQR"])
    assert said(streamed) == "JKL"
    last = chunks(streamed.content)[-1]["choices"][0]
    assert (last["finish_reason"], last["stop_reason"]) == ("stop", "MNOPQR")


@pytest.mark.parametrize("path", ASK)
async def test_UNI_02_a_character_cut_by_the_length_is_one_replacement_in_both_modes(path: str):
    number = len(tokenizer().encode("a🚀", add_special_tokens=False)) - 1
    whole = await post(TalkingCore(says("a🚀")), path, max_tokens=number)
    streamed = await post(TalkingCore(says("a🚀")), path, max_tokens=number, stream=True)
    assert text_of(whole) == said(streamed)
    assert whole.json()["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True])
async def test_LEN_07_echo_of_zero_tokens_scores_the_prompt(stream: bool):
    core = TalkingCore(says("ignored"))
    answer = await post(core, COMPLETION, prompt="Is water wet?", echo=True, max_tokens=0, logprobs=1, stream=stream)
    choice = (chunks(answer.content)[0] if stream else answer.json())["choices"][0]
    assert choice["text"] == "Is water wet?"
    assert "".join(choice["logprobs"]["tokens"]) == "Is water wet?"
    assert choice["logprobs"]["token_logprobs"][0] is None
    assert set(choice["logprobs"]["token_logprobs"][1:]) == {-1.0}
    assert choice["finish_reason"] == "length"


async def test_LGP_05_prompt_logprobs_cover_the_prompt():
    answer = (await post(TalkingCore(says("x")), COMPLETION, prompt="four tokens here ok", prompt_logprobs=1)).json()
    entries = answer["choices"][0]["prompt_logprobs"]
    assert entries[0] is None
    assert len(entries) == answer["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("length", "status"),
    [
        pytest.param(CONTEXT - 1, 200, id="LEN-03-room-for-one"),
        pytest.param(CONTEXT, 400, id="LEN-03-no-room"),
        pytest.param(CONTEXT + 1, 400, id="LEN-02-too-long"),
    ],
)
@pytest.mark.parametrize("max_tokens", [1, None])
async def test_length_of_the_prompt_at_its_limit(length: int, status: int, max_tokens: int | None):
    answer = await post(TalkingCore(says("ab")), COMPLETION, prompt=[7] * length, max_tokens=max_tokens)
    assert answer.status_code == status
    if status == 200:
        assert answer.json()["usage"]["completion_tokens"] == 1
        assert answer.json()["usage"]["prompt_tokens"] == length
    else:
        assert answer.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"prompt": [VOCAB]}, id="SMP-07-prompt"),
        pytest.param({"prompt": [-1]}, id="SMP-07-negative"),
        pytest.param({"prompt": [2**40]}, id="SMP-07-wide"),
        pytest.param({"prompt": [2**70]}, id="SMP-07-wider-than-64-bits"),
        pytest.param({"prompt": [[1], [VOCAB]]}, id="SMP-07-second-prompt"),
        pytest.param({"prompt": [5], "truncate_prompt_tokens": 1, "stop_token_ids": [2**70]}, id="SMP-07-stop"),
        pytest.param({"prompt": [2**70], "truncate_prompt_tokens": 1}, id="SMP-07-cut"),
    ],
)
async def test_a_token_id_outside_the_vocabulary_is_refused_and_the_next_request_runs(fields: dict):
    core = TalkingCore(says("ok"))
    _, client = served(core)
    async with client:
        assert (await client.post(COMPLETION, json=fields)).status_code == 400
        assert core.running == {}
        assert (await client.post(COMPLETION, json=ASK[COMPLETION])).status_code == 200


@pytest.mark.parametrize("name", ["messages", "add_generation_prompt", "self"])
async def test_a_template_variable_that_has_a_field_of_its_own_is_refused(name: str):
    answer = await post(TalkingCore(says("x")), CHAT, chat_template_kwargs={name: []})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "chat_template_kwargs")


REFUSING = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}x"


@pytest.mark.parametrize("stream", [False, True])
async def test_TOK_06_a_template_that_refuses_is_a_400_with_its_words(stream: bool):
    core = TalkingCore(says("ok"))
    made = engine(core, clock=SystemClock())
    made.text.chat = ChatTemplate(REFUSING, tokenizer().special_texts)
    app = create_app(made, FrontendConfig())
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server") as client:
        answer = await client.post(CHAT, json={"messages": messages, "stream": stream})
    assert answer.status_code == 400
    assert "no system role" in answer.json()["error"]["message"]
    assert "Traceback" not in answer.text and ".py" not in answer.text


async def test_TOK_03_a_template_that_writes_nothing_is_a_400():
    core = TalkingCore(says("ok"))
    made = engine(core, clock=SystemClock())
    made.text.chat = ChatTemplate("{{ messages[0].content }}", tokenizer().special_texts)
    app = create_app(made, FrontendConfig())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server") as client:
        empty = await client.post(CHAT, json={"messages": [{"role": "user", "content": ""}]})
        assert empty.status_code == 400
        assert (await client.post(CHAT, json=ASK[CHAT])).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [503, 500, 400])
async def test_a_failure_in_the_core_has_its_status_also_when_streaming(status: int, stream: bool):
    def fails(core: TalkingCore, submit: Submit) -> None:
        core.fail(submit.request, "the queue is full", status, retry_after_s=4)

    answer = await post(TalkingCore(fails), CHAT, stream=stream)
    assert answer.status_code == status
    assert answer.headers.get("retry-after") == ("4" if status == 503 else None)


async def test_STR_11_a_core_that_dies_in_a_stream_is_an_error_event_and_a_503_afterwards():
    def dies(core: TalkingCore, submit: Submit) -> None:
        core.emit(submit.request, [9])
        core.stop("out of memory")
        core.running.clear()

    core = TalkingCore(dies)
    _, client = served(core)
    async with client:
        answer = await client.post(CHAT, json={**ASK[CHAT], "stream": True})
        assert answer.status_code == 200
        *_, error, done, _ = answer.text.split("\n\n")
        assert json.loads(error.removeprefix("data: "))["error"]["type"] == "service_unavailable_error"
        assert done == "data: [DONE]"
        assert (await client.get("/health")).status_code == 503
        assert (await client.post(CHAT, json=ASK[CHAT])).status_code == 503


@pytest.mark.parametrize("stream", [True, False], ids=["DIS-03-stream", "DIS-03-whole"])
@pytest.mark.parametrize("prompts", [["a"], ["a", "b", "c"]], ids=["one", "three"])
async def test_a_client_that_leaves_ends_its_requests_in_the_core(stream: bool, prompts: list[str]):
    core = TalkingCore(hangs)
    made = engine(core, clock=SystemClock())
    body = {"prompt": prompts, "stream": stream, "n": 2}
    call = Call(create_app(made, FrontendConfig()), COMPLETION, body)
    while len(core.running) < 2 * len(prompts):
        await asyncio.sleep(0)
    call.leave()
    async with asyncio.timeout(1):
        await call.task
    assert core.running == {}
    aborted = [request for message in core.sent if isinstance(message, Abort) for request in message.requests]
    assert len(aborted) == len(set(aborted)) == 2 * len(prompts)


async def test_n_answers_share_a_prompt_and_sum_up():
    core = TalkingCore(says("ab"))
    answer = (await post(core, CHAT, n=3, temperature=1.0)).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert [submit.leader for submit in core.submits] == [0] + [core.submits[0].request] * 2
    assert answer["usage"]["completion_tokens"] == 3 * len([*tokenizer().encode("ab", add_special_tokens=False), EOS])


async def test_without_a_tokenizer_ids_go_in_and_come_out_of_the_real_client():
    core = TalkingCore(says("ab"))
    _, client = served(core, bare_admission())
    async with client:
        answer = (await client.post(COMPLETION, json={"prompt": [5, 6], "logprobs": 1})).json()
        ids = [*tokenizer().encode("ab", add_special_tokens=False), EOS]
        assert answer["choices"][0]["token_ids"] == ids
        assert answer["choices"][0]["logprobs"]["tokens"] == [f"token_id:{token}" for token in ids]
        for path, fields, param in (
            (COMPLETION, {"prompt": "text"}, "prompt"),
            (COMPLETION, {"prompt": [5], "stop": ["x"]}, "stop"),
            (CHAT, ASK[CHAT], "messages"),
        ):
            refused = await client.post(path, json=fields)
            assert refused.status_code == 400
            assert "tokenizer" in refused.json()["error"]["message"]
            assert refused.json()["error"]["param"] == param or path == CHAT


async def test_priority_is_refused_first_come_and_travels_otherwise():
    core = TalkingCore(says("ab"))
    made = engine(core, admission(), SystemClock())
    for policy, status in (("fcfs", 400), ("priority", 200)):
        app = create_app(made, FrontendConfig(), policy=policy)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server") as client:
            assert (await client.post(COMPLETION, json={"prompt": "a", "priority": -3})).status_code == status
    assert [submit.priority for submit in core.submits] == [-3]


async def test_LEN_04_tokenizing_takes_texts_beyond_the_context():
    text = "the quick brown fox " * 40
    _, client = served(TalkingCore(says("x")))
    async with client:
        found = (await client.post("/tokenize", json={"prompt": text})).json()
        assert found["count"] > CONTEXT
        assert (await client.post("/detokenize", json={"tokens": found["tokens"]})).json() == {"prompt": text}
        assert (await client.post(COMPLETION, json={"prompt": text})).json()["error"]["param"] == "input_tokens"
