"""From what a caller asks to what the core is told: prompts, room, seeds, ids for strings."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import ClientError, PromptTooLong
from engine.client.admit import TextRules
from engine.client.seeds import Seeds, sibling_seed
from engine.wire.params import SamplingParams
from tests.unit.client.models import (
    CONTEXT,
    EOS,
    SECOND_EOS,
    VOCAB,
    admission,
    bare_admission,
    params,
    tokenizer,
)


def sampling(**fields: object):  # a Sampling
    return admission().admit([1, 2, 3], params(**fields)).sampling[0]


class TestPrompt:
    def test_a_text_is_tokenized(self) -> None:
        admitted = admission().admit("the quick", SamplingParams())
        assert admitted.prompt_ids == tokenizer().encode("the quick")

    @pytest.mark.parametrize("prompt", [[1, 2], (1, 2), array("i", [1, 2]), array("q", [1, 2])])
    def test_token_ids_come_in_any_sequence(self, prompt: list[int]) -> None:
        assert admission().admit(prompt, SamplingParams()).prompt_ids == array("i", [1, 2])

    @pytest.mark.parametrize("prompt", ["", [], array("i"), ()])
    def test_an_empty_one_is_refused(self, prompt: str) -> None:
        with pytest.raises(ClientError, match="empty") as caught:
            admission().admit(prompt, SamplingParams())
        assert caught.value.param == "prompt"

    @pytest.mark.parametrize(
        "prompt", [[VOCAB], [-1], [2**40], [True], [1.5], ["1"], [None], [[1]], {1: 2}, 5, None, b"text", "\ud800"]
    )
    def test_SMP_07_what_is_no_text_and_no_token_is_refused(self, prompt: str) -> None:
        with pytest.raises(ClientError) as caught:
            admission().admit(prompt, SamplingParams())
        assert caught.value.param == "prompt"

    def test_a_text_needs_a_tokenizer_and_ids_do_not(self) -> None:
        with pytest.raises(ClientError, match="no tokenizer"):
            bare_admission().admit("text", SamplingParams())
        assert bare_admission().admit([5], SamplingParams()).text is None

    def test_special_tokens_in_a_prompt_are_text(self) -> None:
        ids = admission().admit("<|im_end|>", SamplingParams(), add_special_tokens=False).prompt_ids
        assert not tokenizer().special_ids & set(ids)


class TestRoom:
    @pytest.mark.parametrize(
        ("length", "max_tokens", "expected"),
        [(1, None, CONTEXT - 1), (CONTEXT - 1, None, 1), (CONTEXT - 1, 1, 1), (10, 5, 5), (10, 10**9, CONTEXT - 10)],
    )
    def test_LEN_03_LEN_09_max_tokens_is_clipped_to_the_room_left(
        self, length: int, max_tokens: int | None, expected: int
    ) -> None:
        admitted = admission().admit([1] * length, params(max_tokens=max_tokens))
        assert admitted.sampling[0].max_tokens == expected

    @pytest.mark.parametrize("length", [CONTEXT, CONTEXT + 1, 10 * CONTEXT])
    @pytest.mark.parametrize("max_tokens", [1, None])
    def test_LEN_03_a_prompt_that_leaves_no_room_is_refused(self, length: int, max_tokens: int | None) -> None:
        with pytest.raises(PromptTooLong) as caught:
            admission().admit([1] * length, params(max_tokens=max_tokens))
        assert caught.value.code == "context_length_exceeded" and caught.value.status == 400
        assert f"maximum context length is {CONTEXT} tokens" in caught.value.message
        assert f"your prompt contains {length} input tokens" in caught.value.message

    def test_LEN_02_a_text_of_too_many_tokens_is_refused(self) -> None:
        with pytest.raises(PromptTooLong):
            admission().admit("a b c d e f g h " * 20, SamplingParams())

    def test_a_text_that_cannot_fit_is_refused_without_tokenizing(self) -> None:
        gate = admission(max_token_bytes=4)
        gate.tokenizer = Unread()  # type: ignore[assignment]
        with pytest.raises(PromptTooLong, match="at least 64 input tokens"):
            gate.admit("x" * 253, SamplingParams())
        with pytest.raises(AssertionError, match="read"):
            gate.admit("x" * 252, SamplingParams())

    def test_min_tokens_never_exceeds_what_is_possible(self) -> None:
        admitted = admission().admit([1] * 60, params(max_tokens=None, min_tokens=50))
        assert (admitted.sampling[0].min_tokens, admitted.sampling[0].max_tokens) == (4, 4)

    def test_LEN_07_no_tokens_asked_for_runs_the_prompt_and_one_token_that_is_dropped(self) -> None:
        admitted = admission().admit([1, 2], params(max_tokens=0), allow_zero=True)
        assert admitted.prompt_only and admitted.sampling[0].max_tokens == 1


class Unread:
    def encode(self, *_: object, **__: object) -> None:
        raise AssertionError("read")


class TestResolved:
    def test_off_switches_have_one_form(self) -> None:
        assert sampling(top_k=-1).top_k == sampling(top_k=0).top_k == sampling(top_k=VOCAB).top_k == 0
        assert sampling(top_k=VOCAB - 1).top_k == VOCAB - 1

    def test_temperatures_too_small_for_float32_are_greedy_or_safe(self) -> None:
        assert sampling(temperature=1e-6).temperature == 0.0
        assert sampling(temperature=1e-3).temperature == 0.01

    def test_top_p_zero_is_the_best_token_alone(self) -> None:
        assert 0 < sampling(top_p=0).top_p < 1e-6

    def test_biases_are_clamped_as_openai_says(self) -> None:
        resolved = sampling(logit_bias={3: 1e9, 4: -1e9, 5: 1})
        assert (resolved.bias_ids, resolved.bias_values) == ((3, 4, 5), (100.0, -100.0, 1.0))

    def test_end_ids_are_the_models_and_those_asked_for_each_once(self) -> None:
        assert sampling(stop_token_ids=[9, SECOND_EOS, 9]).end_ids == (EOS, SECOND_EOS, 9)
        assert sampling(stop_token_ids=[9], ignore_eos=True).end_ids == (9,)

    def test_STP_05_a_stop_string_that_names_a_special_token_ends_at_its_id(self) -> None:
        admitted = admission().admit([1], params(stop=["<|im_start|>", "x"], ignore_eos=True))
        special = tokenizer().id_of("<|im_start|>")
        assert special is not None and admitted.sampling[0].end_ids == (special,)
        assert admitted.text is not None and admitted.text.stop_names == {special: "<|im_start|>"}

    def test_bad_words_are_spelt_as_they_stand_at_a_beginning_and_after_a_space(self) -> None:
        encoded = tokenizer().encode
        expected = {tuple(encoded(text, add_special_tokens=False)) for text in ("fox", " fox", "lazy dog", " lazy dog")}
        assert set(sampling(bad_words=["fox", "lazy dog"]).bad_sequences) == expected

    def test_allowed_ids_are_a_set(self) -> None:
        assert sampling(allowed_token_ids=[5, 3, 5]).allowed_ids == (3, 5)

    def test_text_rules_say_how_to_decode(self) -> None:
        admitted = admission().admit([1], params(stop="x", min_tokens=2, skip_special_tokens=False))
        assert admitted.text == TextRules(stop=("x",), min_tokens=2, skip_special_tokens=False)
        assert admission().admit([1], params(detokenize=False)).text is None


class TestSeeds:
    @given(seed=st.integers(-(2**63), 2**63 - 1), count=st.integers(1, 8))
    def test_siblings_count_up_from_the_seed_and_wrap(self, seed: int, count: int) -> None:
        seeds = [one.seed for one in admission().admit([1], params(seed=seed, n=count)).sampling]
        assert seeds == [sibling_seed(seed, index) for index in range(count)]
        assert seeds[0] == seed and len(set(seeds)) == count and all(-(2**63) <= one < 2**63 for one in seeds)

    def test_only_the_first_sibling_scores_the_prompt(self) -> None:
        admitted = admission().admit([1], params(n=3, prompt_logprobs=2))
        assert [one.prompt_logprobs for one in admitted.sampling] == [2, None, None]

    def test_a_server_with_a_seed_repeats_itself_in_the_order_of_arrival(self) -> None:
        first, second = Seeds(7), Seeds(7)
        drawn = [first.draw() for _ in range(50)]
        assert drawn == [second.draw() for _ in range(50)] and len(set(drawn)) == 50
        assert Seeds(8).draw() not in drawn

    def test_a_server_without_one_does_not(self) -> None:
        assert len({Seeds(-1).draw() for _ in range(20)}) == 20


@pytest.mark.parametrize(("priority", "salt", "field"), [(1.5, "", "priority"), (0, "a/b", "cache_salt")])
def test_what_accompanies_a_prompt_is_checked_too(priority: int, salt: str, field: str) -> None:
    with pytest.raises(ClientError) as caught:
        admission().admit([1], SamplingParams(), priority=priority, cache_salt=salt)
    assert caught.value.param == field
