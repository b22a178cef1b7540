"""Streams: the same answer as the whole body, in frames that strict clients accept."""

from array import array
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import EngineDead, EngineFault
from engine.frontends.openai.answers import FINISH_REASONS
from engine.wire.chunk import Chunk
from tests.fakes.fake_async_engine import EOS, FakeEngine, last_chunk, logprob_rows, pieces, text_chunk
from tests.fakes.http import chunks, client_of, events

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
ASK = {CHAT: {"messages": [{"role": "user", "content": "hi"}]}, COMPLETION: {"prompt": "hi"}}
PATHS = [(path, n) for path in ASK for n in (1, 2)]


async def post(engine: FakeEngine, path: str, **fields: object):
    async with client_of(engine) as client:
        return await client.post(path, json={**ASK[path], **fields})


async def stream(engine: FakeEngine, path: str, **fields: object) -> list[dict]:
    answer = await post(engine, path, stream=True, **fields)
    assert answer.status_code == 200, answer.text
    return chunks(answer.content)


def text_of(choice: dict) -> str:
    return choice["text"] if "text" in choice else choice["delta"].get("content", "")


def texts(found: list[dict]) -> dict[int, str]:
    """Choice index -> everything it said."""
    said: dict[int, str] = {}
    for chunk in found:
        for choice in chunk["choices"]:
            said[choice["index"]] = said.get(choice["index"], "") + text_of(choice)
    return said


@pytest.mark.parametrize(("path", "n"), PATHS)
async def test_STR_01_the_only_chunk_without_choices_is_the_usage_before_done(path: str, n: int):
    found = await stream(FakeEngine(), path, n=n, stream_options={"include_usage": True})
    *others, last = found
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 12 * n
    assert all(len(chunk["choices"]) == 1 and chunk["usage"] is None for chunk in others)


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": False}}, {"stream_options": None}])
@pytest.mark.parametrize(("path", "n"), PATHS)
async def test_STR_02_without_the_option_every_chunk_has_a_choice_and_none_has_usage(path, n, options):
    found = await stream(FakeEngine(), path, n=n, **options)
    assert all(chunk["choices"] and "usage" not in chunk for chunk in found)


@pytest.mark.parametrize("extra", [{}, {"logprobs": True}, {"return_token_ids": True}])
@pytest.mark.parametrize(("path", "n"), PATHS)
async def test_STR_03_finish_reason_is_null_until_the_one_last_chunk(path, n, extra):
    extra = {"logprobs": 1} if path == COMPLETION and "logprobs" in extra else extra
    found = await stream(FakeEngine(), path, n=n, **extra)
    for index in range(n):
        reasons = [
            choice["finish_reason"] for chunk in found for choice in chunk["choices"] if choice["index"] == index
        ]
        assert reasons[:-1] == [None] * (len(reasons) - 1)
        assert reasons[-1] == "stop"


@pytest.mark.parametrize("path", ASK)
async def test_STR_07_index_is_the_choice_and_not_the_token(path: str):
    found = await stream(FakeEngine(pieces("a", "b", "c", "d")), path)
    assert {choice["index"] for chunk in found for choice in chunk["choices"]} == {0}


def test_STR_08_every_reason_of_the_engine_has_one_public_word():
    assert FINISH_REASONS == {"stop": "stop", "length": "length"}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("path", ASK)
async def test_STR_08_an_answer_that_the_server_aborted_is_an_error(path: str, streams: bool):
    answer = await post(FakeEngine(pieces("a", reason="abort")), path, stream=streams)
    assert answer.status_code == 503
    assert answer.json()["error"]["type"] == "service_unavailable_error"


@pytest.mark.parametrize("path", ASK)
async def test_STR_10_held_back_tokens_make_no_empty_delta(path: str):
    held = [Chunk(0, array("i", [65]), "") for _ in range(3)]
    engine = FakeEngine(lambda *_: [*held, text_chunk("I"), *held, text_chunk(" am"), last_chunk(" here")])
    found = await stream(engine, path, stop=["\nEND"])
    said = [text_of(chunk["choices"][0]) for chunk in found]
    assert said == (["", "I", " am", " here"] if path == CHAT else ["I", " am", " here"])


async def test_first_chunk_of_each_choice_brings_the_role_and_no_other_does():
    found = await stream(FakeEngine(), CHAT, n=3)
    roles = [(choice["index"], choice["delta"]["role"]) for chunk in found for choice in chunk["choices"]
             if "role" in choice["delta"]]  # fmt: skip
    assert sorted(roles) == [(0, "assistant"), (1, "assistant"), (2, "assistant")]
    firsts = {choice["index"]: choice for chunk in reversed(found) for choice in chunk["choices"]}
    assert all(choice["delta"] == {"role": "assistant", "content": ""} for choice in firsts.values())


@pytest.mark.parametrize("fault", [RuntimeError("boom"), EngineFault("boom"), EngineDead("core gone")])
@pytest.mark.parametrize(("path", "n"), PATHS)
async def test_STR_11_a_fault_in_a_stream_is_one_error_event_then_done_then_the_end(path, n, fault):
    engine = FakeEngine(lambda *_: [text_chunk("a"), text_chunk("b"), text_chunk("c"), fault])
    answer = await post(engine, path, stream=True, n=n)
    found = events(answer.content)
    assert [set(one) for one in found if isinstance(one, dict) and "error" in one] == [{"error"}]
    assert set(found[-2]["error"]) == {"message", "type", "param", "code"}
    assert found[-1] == "[DONE]" and found.count("[DONE]") == 1
    assert engine.open_streams == []


@pytest.mark.parametrize("fault", [RuntimeError("boom"), EngineFault("boom")])
@pytest.mark.parametrize("path", ASK)
async def test_STR_11_a_fault_before_the_first_output_has_its_status(path, fault):
    answer = await post(FakeEngine(lambda *_: [fault]), path, stream=True)
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ASK)
async def test_STR_13_separators_in_generated_text_are_escaped_on_both_paths(path: str):
    engine = FakeEngine(pieces("a\u2028b", "\u0085", "c\u2029"))
    answer = await post(engine, path, stream=True)
    assert not any(mark in answer.text for mark in "\u2028\u2029\u0085")
    lines = [line for line in answer.content.decode().splitlines() if line]
    assert len(lines) == len(events(answer.content))
    assert texts(chunks(answer.content)) == {0: "a\u2028b\u0085c\u2029"}


async def test_stream_headers_keep_proxies_from_buffering():
    answer = await post(FakeEngine(), CHAT, stream=True)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"


def script_of(cuts: list[list[str]]):
    """cuts: the pieces of each sibling; siblings take turns."""

    def script(_prompt: object, params: object) -> Iterable[Chunk]:
        for place in range(max(map(len, cuts))):
            for index, texts_ in enumerate(cuts):
                if place < len(texts_):
                    make = last_chunk if place == len(texts_) - 1 else text_chunk
                    data = texts_[place].encode()
                    yield make(texts_[place], index, logprobs=logprob_rows(data, params.logprobs))

    return script


@st.composite
def two_cuts(draw: st.DrawFn) -> tuple[list[list[str]], list[list[str]]]:
    """The same two texts, cut in two ways."""
    said = [draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=12)) for _ in range(2)]
    return tuple([cut(draw, text) for text in said] for _ in range(2))


def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
    return [text[start:stop] for start, stop in zip([0, *places], [*places, len(text)], strict=True)]


@given(two_cuts(), st.sampled_from(list(ASK)))
async def test_any_chunking_says_what_the_whole_body_says(cuts, path: str):
    logprobs = {"logprobs": True, "top_logprobs": 1} if path == CHAT else {"logprobs": 1}
    first, second = [FakeEngine(script_of(one)) for one in cuts]
    found = await stream(first, path, n=2, stream_options={"include_usage": True}, **logprobs)
    whole = (await post(second, path, n=2, **logprobs)).json()
    assert texts(found) == {
        choice["index"]: choice["message"]["content"] if path == CHAT else choice["text"] for choice in whole["choices"]
    }
    assert found[-1]["usage"] == whole["usage"]
    assert joined_logprobs(found) == {choice["index"]: choice["logprobs"] for choice in whole["choices"]}


def joined_logprobs(found: list[dict]) -> dict[int, dict]:
    joined: dict[int, dict] = {}
    for chunk in found:
        for choice in chunk["choices"]:
            into = joined.setdefault(choice["index"], {})
            for column, entries in (choice["logprobs"] or {}).items():
                into[column] = into.get(column, []) + entries
    return joined


@pytest.mark.parametrize("path", ASK)
async def test_HLM_05_continuous_usage_grows_by_each_chunks_tokens(path: str):
    options = {"include_usage": True, "continuous_usage_stats": True}
    engine = FakeEngine(pieces(*["ab"] * 10, "abcdefgh", *["a"] * 22))
    found = await stream(engine, path, stream_options=options)
    counts = [chunk["usage"]["completion_tokens"] for chunk in found]
    assert counts == sorted(counts)
    assert counts[-1] == 50
    whole = (await post(FakeEngine(pieces("ab" * 25)), path)).json()
    assert found[-1]["usage"] == whole["usage"]


async def test_HLM_07_endpoints_agree_on_usage_streamed_or_not():
    async def usage(path: str, streams: bool) -> dict:
        engine = FakeEngine()
        engine.num_cached_tokens = 2
        fields = {"prompt": [256, *b"user:hi;"]} if path == COMPLETION else {}
        if streams:
            return (await stream(engine, path, stream_options={"include_usage": True}, **fields))[-1]["usage"]
        return (await post(engine, path, **fields)).json()["usage"]

    found = [await usage(path, streams) for path in ASK for streams in (False, True)]
    assert found == [found[0]] * 4
    assert found[0] == {
        "prompt_tokens": 9,
        "completion_tokens": 12,
        "total_tokens": 21,
        "prompt_tokens_details": {"cached_tokens": 2},
    }


@pytest.mark.parametrize("path", ASK)
async def test_a_final_end_token_without_text_counts_and_says_nothing(path: str):
    end = Chunk(0, array("i", [EOS]), "", True, "stop", EOS)
    found = await stream(FakeEngine(lambda *_: [text_chunk("ab"), end]), path, stream_options={"include_usage": True})
    assert texts(found) == {0: "ab"}
    assert found[-1]["usage"]["completion_tokens"] == 3
    assert found[-2]["choices"][0]["stop_reason"] == EOS
    if path == CHAT:
        assert found[-2]["choices"][0]["delta"] == {}


@pytest.mark.parametrize("path", ASK)
async def test_UNI_02_text_cut_inside_a_character_arrives_as_the_engine_decoded_it(path: str):
    script = lambda *_: [last_chunk("\ufffd", reason="length")]  # noqa: E731
    found = await stream(FakeEngine(script), path)
    assert texts(found) == {0: "\ufffd"}
    assert found[-1]["choices"][0]["finish_reason"] == "length"


async def test_plain_frames_are_what_the_struct_encoder_writes():
    """The byte template against the generic encoder: asking for continuous usage turns the template off."""
    plain = await stream(FakeEngine(), CHAT, request_id="same", stream_options={"include_usage": True})
    options = {"include_usage": True, "continuous_usage_stats": True}
    full = await stream(FakeEngine(), CHAT, request_id="same", stream_options=options)
    for one, other in zip(plain, full, strict=True):
        assert list(one) == list(other)
        assert one["choices"] == other["choices"]


async def test_token_ids_come_only_when_asked_for():
    assert "token_ids" not in (await post(FakeEngine(), CHAT)).text
    found = await stream(FakeEngine(), CHAT, return_token_ids=True)
    assert found[0]["prompt_token_ids"] == [256, *b"user:hi;"]
    ids = [one for chunk in found for one in chunk["choices"][0].get("token_ids", [])]
    assert bytes(ids) == b"Hello world!"
    assert sum("prompt_token_ids" in chunk for chunk in found) == 1
