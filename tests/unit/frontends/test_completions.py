"""Completions: every form of `prompt`, echo, and the many choices of one body."""

from array import array

import msgspec
import pytest

from engine.base.errors import CapacityError
from engine.frontends.openai.prompts import MAX_PROMPTS
from engine.wire.chunk import Chunk
from tests.fakes.fake_async_engine import BOS, LIMITS, FakeEngine, last_chunk, pieces, text_chunk
from tests.fakes.http import chunks, client_of


async def post(engine: FakeEngine, **fields: object):
    async with client_of(engine) as client:
        return await client.post("/v1/completions", json=fields)


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ("ab", [[BOS, 97, 98]]),
        (["a", "b"], [[BOS, 97], [BOS, 98]]),
        ([97, 98], [[97, 98]]),
        ([[97], [98, 99]], [[97], [98, 99]]),
        (["a", [98]], None),
        ([97, [98]], None),
    ],
)
async def test_prompt_takes_texts_and_token_ids_but_no_mixture(prompt, tokens):
    engine = FakeEngine()
    answer = await post(engine, prompt=prompt)
    assert [list(asked) for asked, _, _ in engine.asked] == (tokens or [])
    assert answer.status_code == (200 if tokens else 400)


@pytest.mark.parametrize("prompt", ["", [""], [], [[]], ["a", ""]], ids=lambda prompt: f"TOK-03-{prompt!r}")
async def test_empty_prompt_is_refused_before_the_engine(prompt):
    engine = FakeEngine()
    answer = await post(engine, prompt=prompt)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "prompt"
    assert engine.asked == []


@pytest.mark.parametrize("number", [MAX_PROMPTS, MAX_PROMPTS + 1])
async def test_number_of_prompts_is_bounded(number: int):
    answer = await post(FakeEngine(pieces("x")), prompt=["a"] * number)
    assert answer.status_code == (200 if number == MAX_PROMPTS else 400)


@pytest.mark.parametrize(("number", "status"), [(MAX_PROMPTS // 8, 200), (MAX_PROMPTS // 8 + 1, 400)])
async def test_number_of_answers_of_all_prompts_together_is_bounded(number: int, status: int):
    engine = FakeEngine(pieces("x"))
    answer = await post(engine, prompt=["a"] * number, n=8)
    assert answer.status_code == status
    assert len(engine.asked) == (number if status == 200 else 0)


async def test_a_token_list_longer_than_the_number_of_prompts_is_one_prompt():
    engine = FakeEngine()
    assert (await post(engine, prompt=[97] * 2000)).status_code == 200
    assert len(engine.asked) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_choice_index_is_prompt_times_n_plus_sibling(stream: bool):
    engine = FakeEngine(lambda prompt, params: [last_chunk(f"{chr(prompt[-1])}{i}", i) for i in range(params.n)])
    answer = await post(engine, prompt=["a", "b", "c"], n=2, stream=stream)
    found = chunks(answer.content) if stream else [answer.json()]
    said = {choice["index"]: choice["text"] for chunk in found for choice in chunk["choices"]}
    assert said == {0: "a0", 1: "a1", 2: "b0", 3: "b1", 4: "c0", 5: "c1"}


async def test_many_prompts_interleave_and_usage_sums_them():
    engine = FakeEngine(pieces("x", "y", "z"))
    answer = await post(engine, prompt=["a"] * 40, stream=True, stream_options={"include_usage": True})
    *found, usage = chunks(answer.content)
    order = [chunk["choices"][0]["index"] for chunk in found]
    assert sorted(order) == sorted([*range(40)] * 3)
    assert order != sorted(order)
    assert usage["usage"]["prompt_tokens"] == 80
    assert usage["usage"]["completion_tokens"] == 120


async def test_a_fault_of_one_prompt_ends_the_stream_of_all():
    def script(prompt, _params):
        return [text_chunk("x"), CapacityError("full")] if prompt[-1] == 98 else [text_chunk("y")] * 9 + [last_chunk()]

    engine = FakeEngine(script)
    answer = await post(engine, prompt=["a", "b", "c"], stream=True)
    assert answer.content.endswith(b"data: [DONE]\n\n")
    assert answer.content.count(b'"error"') == 1
    assert engine.open_streams == []


async def test_when_the_second_prompt_is_refused_the_first_does_not_run_on():
    class FullAfterOne(FakeEngine):
        async def generate(self, *args, **options):
            if self.asked:
                raise CapacityError("full")
            return await super().generate(*args, **options)

    engine = FullAfterOne()
    answer = await post(engine, prompt=["a", "b"])
    assert answer.status_code == 503
    assert engine.open_streams == [] and engine.num_aborted == 1


ECHO = {"echo": True, "max_tokens": 0, "logprobs": 1}


@pytest.mark.parametrize("stream", [False, True])
async def test_LEN_07_echo_without_generation_scores_the_prompt(stream: bool):
    text = "Is water wet? Reply: No"
    engine = FakeEngine(lambda *_: [Chunk(0, array("i"), "", True, "length")])
    answer = await post(
        engine, prompt=text, stream=stream, stream_options={"include_usage": True} if stream else None, **ECHO
    )
    found = chunks(answer.content) if stream else [answer.json()]
    choice = found[0]["choices"][0]
    assert choice["text"] == text
    assert choice["finish_reason"] == "length"
    assert choice["logprobs"]["token_logprobs"] == [None] + [-0.5] * len(text)
    assert found[-1]["usage"]["completion_tokens"] == 0
    assert engine.asked[0][2]["allow_zero"] is True


@pytest.mark.parametrize("logprobs", [0, 1])
async def test_LGP_03_echoed_tokens_join_to_the_echoed_text(logprobs: int):
    prompt = "\n7. The ferry has 36"
    choice = (await post(FakeEngine(), prompt=prompt, echo=True, logprobs=logprobs)).json()["choices"][0]
    tokens = choice["logprobs"]["tokens"]
    assert tokens[0] == "<s>"
    assert "".join(tokens[1:]) == choice["text"] == prompt + "Hello world!"
    offsets = choice["logprobs"]["text_offset"]
    assert [choice["text"][at : at + 1] for at in offsets[1:]] == tokens[1:]


async def test_LGP_05_prompt_logprobs_have_one_entry_per_prompt_token():
    choice = (await post(FakeEngine(), prompt="four tokens", prompt_logprobs=2)).json()["choices"][0]
    first, *others = choice["prompt_logprobs"]
    assert first is None
    assert len(others) == len("four tokens")
    assert others[0] == {
        str(ord("f")): {"logprob": -0.5, "rank": 1, "decoded_token": "f"},
        str(ord("f") ^ 1): {"logprob": -1.5, "rank": 2, "decoded_token": "g"},
    }


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("logprobs", [None, 0, 1, 5])
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("max_tokens", [0, 1])
async def test_LGP_02_every_combination_answers_whole(stream, echo, logprobs, n, max_tokens):
    def script(_prompt, params):
        for index in range(params.n):
            yield Chunk(index, array("i"), "", True, "length") if max_tokens == 0 else last_chunk("x", index)

    engine = FakeEngine(script)
    answer = await post(
        engine, prompt="ab", stream=stream, echo=echo, logprobs=logprobs, n=n, max_tokens=max_tokens, stop=["q"]
    )
    if max_tokens == 0 and not echo:
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "max_tokens")
        return
    assert answer.status_code == 200
    found = chunks(answer.content) if stream else [answer.json()]
    assert {choice["index"] for chunk in found for choice in chunk["choices"]} == set(range(n))


async def test_no_number_in_an_answer_is_infinite():
    answer = await post(FakeEngine(), prompt="ab", logprobs=3)
    top = answer.json()["choices"][0]["logprobs"]["top_logprobs"][0]
    assert sorted(top.values()) == [-9999.0, -1.5, -0.5]
    assert msgspec.json.decode(answer.content)


async def test_tokens_as_ids_and_pieces_of_characters_keep_their_identity():
    choice = (await post(FakeEngine(pieces("é")), prompt="a", logprobs=0, return_tokens_as_token_ids=True)).json()
    assert choice["choices"][0]["logprobs"]["tokens"] == ["token_id:195", "token_id:169"]
    choice = (await post(FakeEngine(pieces("éa")), prompt="a", logprobs=0)).json()
    columns = choice["choices"][0]["logprobs"]
    assert columns["tokens"] == ["bytes:\\xc3", "bytes:\\xa9", "a"]
    assert columns["text_offset"] == [0, 0, 1]


@pytest.mark.parametrize(
    ("keep", "tokens"), [(2, b"ef"), (100, b"abcdef"), (-1, b"abcdef"), (0, None), (-2, None), (10**9, None)]
)
async def test_truncation_keeps_the_last_tokens(keep: int, tokens: bytes | None):
    engine = FakeEngine()
    answer = await post(engine, prompt=[*b"abcdef"], truncate_prompt_tokens=keep)
    assert answer.status_code == (200 if tokens else 400)
    assert [bytes(list(asked)) for asked, _, _ in engine.asked] == ([tokens] if tokens else [])


async def test_truncation_to_the_context_leaves_room_for_a_token():
    engine = FakeEngine()
    await post(engine, prompt="x" * 9000, truncate_prompt_tokens=-1)
    assert len(engine.asked[0][0]) == LIMITS.max_model_len - 1


async def test_echo_of_a_cut_prompt_shows_what_was_kept():
    choice = (await post(FakeEngine(), prompt="abcdef", truncate_prompt_tokens=2, echo=True)).json()["choices"][0]
    assert choice["text"] == "efHello world!"


@pytest.mark.parametrize(
    ("fields", "status"), [({"best_of": 2, "n": 2}, 200), ({"best_of": 1}, 200), ({"best_of": 2}, 400)]
)
async def test_best_of_is_n_or_nothing(fields: dict, status: int):
    assert (await post(FakeEngine(), prompt="a", **fields)).status_code == status


NO_TOKENIZER = msgspec.structs.replace(LIMITS, has_tokenizer=False)


async def test_without_a_tokenizer_ids_go_in_and_come_out():
    engine = FakeEngine(lambda *_: [Chunk(0, array("i", [1, 2]), None, True, "length")], NO_TOKENIZER)
    answer = (await post(engine, prompt=[5, 6], logprobs=None)).json()
    assert answer["choices"][0]["token_ids"] == [1, 2]
    assert answer["choices"][0]["prompt_token_ids"] == [5, 6]
    assert answer["choices"][0]["text"] == ""


@pytest.mark.parametrize("fields", [{"prompt": "text"}, {"prompt": [5], "echo": True}], ids=["prompt", "echo"])
async def test_without_a_tokenizer_text_is_refused(fields: dict):
    engine = FakeEngine(limits=NO_TOKENIZER)
    answer = await post(engine, **fields)
    assert answer.status_code == 400
    assert "tokenizer" in answer.json()["error"]["message"]
    assert engine.open_streams == []
