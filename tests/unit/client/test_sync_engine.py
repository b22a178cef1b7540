"""The offline client: results in order, nothing left behind, and an engine that stays usable after an interrupt."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Sequence

import msgspec
import pytest

from engine.base.errors import ClientError, EngineDead, EngineFault, PromptTooLong
from engine.client.admit import Admission
from engine.client.outputs import Logprob
from engine.client.sync_engine import SyncEngine
from engine.wire.output import FinishReason
from engine.wire.params import SamplingParams
from engine.wire.tokens import unpack
from tests.fakes.manual_clock import ManualClock
from tests.fakes.scripted_core import ScriptedCore, logprob_rows
from tests.unit.client.models import CONTEXT, admission, bare_admission, chat_template, params, tokenizer

LENGTH = FinishReason.LENGTH


class Model:
    """A core that answers each request with its last prompt token, as often as it may, one a step."""

    def __init__(self, gate: Admission | None = None, max_in_flight: int = 8) -> None:
        self.core = ScriptedCore()
        self.most = 0
        self.before_step: Callable[[], None] = lambda: None
        self.engine = SyncEngine(
            self.core,
            gate or admission(),
            chat_template(),
            step=self.step,
            clock=ManualClock(),
            max_in_flight=max_in_flight,
        )

    def step(self) -> None:
        self.before_step()
        self.most = max(self.most, len(self.core.running))
        self.core.output([self.next_delta(request) for request in [*self.core.running]])

    def next_delta(self, request: int):  # a Delta
        submit = self.core.running[request]
        token = unpack(submit.tokens)[-1]
        is_last = self.core.starts[request] + 1 == submit.sampling.max_tokens
        row = None if submit.sampling.logprobs is None else logprob_rows([[(token, -1.5), (token, -1.5)]], [1])
        return self.core.delta(request, [token], LENGTH if is_last else None, logprobs=row)

    def generate(self, prompts: object, given: object = None, **others: object):
        return self.engine.generate(prompts, given, use_tqdm=False, **others)  # type: ignore[arg-type]

    @property
    def is_idle(self) -> bool:
        return not self.engine.table.siblings and not self.core.running


def test_results_come_in_the_order_of_the_prompts_whenever_they_end() -> None:
    model = Model()
    lengths = [5, 1, 3, 8, 2]
    outputs = model.generate([[10 + number] for number in range(5)], [params(max_tokens=length) for length in lengths])
    assert [one.outputs[0].token_ids for one in outputs] == [[10 + number] * lengths[number] for number in range(5)]
    assert all(one.finished and one.outputs[0].finish_reason == "length" for one in outputs)
    assert len({one.request_id for one in outputs}) == 5 and model.is_idle and model.core.aborts == []


@pytest.mark.parametrize("prompts", [40, 1])
def test_no_more_than_the_bound_is_in_flight(prompts: int) -> None:
    model = Model(max_in_flight=8)
    assert len(model.generate([[1]] * prompts, params(max_tokens=2, n=3, seed=1))) == prompts
    assert model.most <= 8


def test_one_request_larger_than_the_bound_still_runs() -> None:
    model = Model(max_in_flight=2)
    (output,) = model.generate([[1]], params(max_tokens=1, n=5))
    assert [one.index for one in output.outputs] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("the fox", "the fox"),
        ({"prompt": "the fox"}, "the fox"),
        ([7, 8], None),
        (array("i", [7, 8]), None),
        ({"prompt_token_ids": [7, 8]}, None),
    ],
)
def test_one_prompt_may_stand_alone_in_any_form(prompt: object, text: str | None) -> None:
    (output,) = Model().generate(prompt)
    expected = [7, 8] if text is None else tokenizer().encode(text).tolist()
    assert output.prompt == text and output.prompt_token_ids == expected


def test_a_list_of_one_text_is_one_prompt() -> None:
    assert len(Model().generate(["the fox"])) == 1
    assert Model().generate([]) == []


def test_no_parameters_are_the_models_defaults() -> None:
    model = Model(admission(defaults=SamplingParams(max_tokens=3, temperature=0.5)))
    (output,) = model.generate("the fox")
    assert len(output.outputs[0].token_ids) == 3 and model.core.submits[0].sampling.temperature == 0.5


def test_text_is_decoded_once_and_is_that_of_the_tokens() -> None:
    (output,) = Model().generate(tokenizer().encode("fox", add_special_tokens=False), params(max_tokens=3))
    assert output.outputs[0].text == tokenizer().decode(array("i", output.outputs[0].token_ids)) != ""


def test_log_probabilities_are_in_vllms_shape() -> None:
    (output,) = Model().generate([[40]], params(max_tokens=2, logprobs=1))
    answer = output.outputs[0]
    assert answer.logprobs == [{40: Logprob(-1.5, 1, tokenizer().token_text(40))}] * 2
    assert answer.cumulative_logprob == -3.0
    assert json.loads(msgspec.json.encode(output))["outputs"][0]["token_ids"] == [40, 40]


def test_prompt_log_probabilities_have_one_entry_per_token_the_first_none() -> None:
    model = Model()
    rows = logprob_rows([[(6, -1.0), (9, -0.5)], [(7, -2.0), (8, -math.inf)]], [2, 1])
    model.before_step = lambda: model.core.output(
        [model.core.delta(request, prompt_logprobs=rows) for request in model.core.running]
    )
    (output,) = model.generate([[5, 6, 7]], params(max_tokens=1, prompt_logprobs=1))
    assert output.prompt_logprobs is not None and output.prompt_logprobs[0] is None
    assert [list(entry) for entry in output.prompt_logprobs[1:] if entry] == [[6, 9], [7, 8]]


def test_without_a_tokenizer_there_is_no_text() -> None:
    (output,) = Model(bare_admission()).generate([[5]], params(max_tokens=2, logprobs=0))
    assert output.outputs[0].text == "" and output.outputs[0].logprobs == [{5: Logprob(-1.5, 1, None)}] * 2


class TestRefused:
    @pytest.mark.parametrize(
        ("prompts", "given", "error"),
        [
            ([[1], [1] * CONTEXT], params(), PromptTooLong),
            ([[1], []], params(), ClientError),
            ([[1]], params(n=0), ClientError),
            ([[1], [2]], [params()], ClientError),
            ([{"text": "x"}], params(), ClientError),
        ],
    )
    def test_SMP_12_everything_is_checked_before_anything_runs(
        self, prompts: Sequence[object], given: object, error: type[Exception]
    ) -> None:
        model = Model()
        with pytest.raises(error):
            model.generate(prompts, given)
        assert model.core.sent == []

    def test_priorities_are_as_many_as_prompts(self) -> None:
        model = Model()
        with pytest.raises(ClientError):
            model.generate([[1], [2]], priority=[1])
        model.generate([[1], [2]], priority=[5, -5])
        assert [submit.priority for submit in model.core.submits] == [5, -5]


class TestFailures:
    def test_the_first_failure_ends_the_rest_and_is_raised(self) -> None:
        model = Model()
        model.before_step = lambda: model.core.fail(min(model.core.running, default=0), "it broke", 500)
        with pytest.raises(EngineFault, match="it broke"):
            model.generate([[1], [2], [3]], params(max_tokens=5))
        assert model.is_idle and sum(map(len, model.core.aborts)) == 2
        model.before_step = lambda: None
        assert len(model.generate([[1]])) == 1

    def test_an_interrupt_ends_what_runs_and_the_engine_stays_usable(self) -> None:
        model = Model()

        def interrupt() -> None:
            if model.engine.table.siblings and len(model.core.running) == 3 and model.core.step == 2:
                raise KeyboardInterrupt

        model.before_step = interrupt
        with pytest.raises(KeyboardInterrupt):
            model.generate([[1], [2], [3]], params(max_tokens=5))
        assert model.is_idle and len(model.core.aborts) == 3
        model.before_step = lambda: None
        (output,) = model.generate([[4]], params(max_tokens=2))
        assert output.outputs[0].token_ids == [4, 4]

    def test_a_core_that_ends_is_told(self) -> None:
        model = Model()
        model.before_step = lambda: model.core.stop("the model could not run")
        with pytest.raises(EngineDead, match="could not run"):
            model.generate([[1], [2]], params(max_tokens=5))
        assert not model.engine.table.siblings


class TestChat:
    def test_one_conversation_and_several(self) -> None:
        talk = [{"role": "user", "content": "the fox"}]
        (alone,) = Model().engine.chat(talk, use_tqdm=False)
        both = Model().engine.chat([talk, talk], use_tqdm=False)
        text = "<|im_start|>user\nthe fox<|im_end|>\n<|im_start|>assistant\n"
        assert [tokenizer().decode(array("i", one.prompt_token_ids), skip_special_tokens=False) for one in both] == [
            text,
            text,
        ]
        assert alone.prompt_token_ids == both[0].prompt_token_ids

    def test_a_message_may_be_continued(self) -> None:
        talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "the fox"}]
        (output,) = Model().engine.chat(talk, use_tqdm=False, continue_final_message=True)
        assert tokenizer().decode(array("i", output.prompt_token_ids)).endswith("the fox")


def test_stop_strings_end_a_request_early() -> None:
    model = Model()
    (token,) = tokenizer().encode("e", add_special_tokens=False)
    (output,) = model.generate([[token]], params(max_tokens=20, stop=["eee"]))
    assert output.outputs[0].text == "" and output.outputs[0].stop_reason == "eee" and model.core.aborts


def test_the_progress_bar_counts_prompts(capsys: pytest.CaptureFixture[str]) -> None:
    Model().engine.generate([[1], [2]], params(max_tokens=1))
    assert "2/2" in capsys.readouterr().err
