"""One table of ranges for every way in: what is refused, with which field named, and what is not."""

from __future__ import annotations

import math
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from engine.base.errors import ClientError
from engine.client.check_params import RANGES, check_params, check_routing
from engine.wire.params import SamplingParams
from tests.unit.client.models import VOCAB, admission, bare_admission, limits, params

NAN, INF = math.nan, math.inf
NEITHER = [NAN, INF, -INF, "1", None, True, [1], 10**400]
TOKEN_LISTS = [[VOCAB], [-1], [2**40], [1.0], [True], ["1"], [None], "12", 5]

REFUSED: dict[str, list[object]] = {
    "n": [0, -1, 129, 1.0, "1", True, None, 10**30],
    "temperature": [-0.01, 2.01, -INF, *NEITHER[:1], "1", True, [1], 10**400],
    "top_p": [-0.01, 1.0001, *NEITHER],
    "top_k": [-2, 1.5, "1", True, None],
    "min_p": [-0.01, 1.01, *[value for value in NEITHER if value != 10**400]],
    "presence_penalty": [-2.0001, 2.0001, *NEITHER],
    "frequency_penalty": [-2.0001, 2.0001, *NEITHER],
    "repetition_penalty": [0, 0.0, -1, -0.5, 1e-320, 1e-7, 1e7, *NEITHER],
    "seed": [10**20, "100", -(2**63) - 1, 2**63, 1.5, True],
    "max_tokens": [0, -1, 1.5, "3", True],
    "min_tokens": [-1, 17, 1.5, "3", True, None],
    "logprobs": [-2, 21, 10**6, 1.5, True, "1", -1],
    "prompt_logprobs": [-1, VOCAB, VOCAB + 1, 21, 10**6, True],
    "stop": ["", [""], ["a", ""], ["a"] * 5, [1], 5, ["x" * 1025], "x" * 1025, ["\ud800"], {"a": 1}],
    "bad_words": ["word", [""], ["a"] * 129, [1], ["x" * 1025], ["\udfff"]],
    "stop_token_ids": [*TOKEN_LISTS, [1] * 257],
    "allowed_token_ids": [*TOKEN_LISTS, []],
    "logit_bias": [
        {VOCAB: 1.0}, {-1: 1.0}, {2**40: 1.0}, {1: NAN}, {1: INF}, {1: "x"}, {1: None}, {1: True}, {"1": 1.0},
        {True: 1.0}, {1: 10**400}, [1], "x",
    ],
    "include_stop_str_in_output": [None, 1, "true"],
    "ignore_eos": [None, 1, "true"],
    "detokenize": [None, 0],
    "skip_special_tokens": [None, 0],
    "spaces_between_special_tokens": [None, 0],
}  # fmt: skip
ACCEPTED: dict[str, list[object]] = {
    "n": [1],
    "temperature": [0, 0.0, 1, 2, 2.0, 1e-320],
    "top_p": [0, 0.0, 1e-300, 1, 1.0],
    "top_k": [-1, 0, 1, 10**12],
    "min_p": [0, 0.5, 1],
    "presence_penalty": [-2, 2, 0.0],
    "frequency_penalty": [-2, 2],
    "repetition_penalty": [1e-6, 1, 1.3, 2, 1e6],
    "seed": [None, 0, -1, 2**63 - 1, -(2**63)],
    "max_tokens": [None, 1, 10**30],
    "min_tokens": [0, 16],
    "logprobs": [None, 0, 20],
    "prompt_logprobs": [None, 0, 20],
    "stop": [None, [], "x", ["a", "b", "c", "d"], ("a",), ["x" * 1024], ["é😀"]],
    "bad_words": [None, [], ["a"] * 128],
    "stop_token_ids": [None, [], [0, VOCAB - 1], [1] * 256],
    "allowed_token_ids": [None, [0], list(range(VOCAB))],
    "logit_bias": [None, {}, {0: -100, VOCAB - 1: 100.0}, {1: 1e300}],
}


def ids(table: dict[str, list[object]]) -> list[pytest.param]:  # type: ignore[valid-type]
    return [
        pytest.param(field, value, id=f"{field}-{place}")
        for field, values in table.items()
        for place, value in enumerate(values)
    ]


@pytest.mark.parametrize(("field", "value"), ids(REFUSED))
def test_SMP_04_SMP_07_SMP_08_a_value_outside_its_range_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ClientError) as caught:
        check_params(params(**{field: value}), limits())
    assert caught.value.param == field and caught.value.status == 400


@pytest.mark.parametrize(("field", "value"), ids(ACCEPTED))
def test_the_edges_of_each_range_are_inside(field: str, value: object) -> None:
    check_params(params(**{field: value}), limits())


def test_every_field_has_a_rule_that_refuses_something() -> None:
    """SMP-10: no field without a reader; SMP-12: none with two."""
    assert REFUSED.keys() == asdict(SamplingParams()).keys()
    assert len({rule.field for rule in RANGES}) == len(RANGES)


@pytest.mark.parametrize(("field", "value"), ids(REFUSED))
def test_SMP_03_no_message_repeats_what_was_sent(field: str, value: object) -> None:
    with pytest.raises(ClientError) as caught:
        check_params(params(**{field: value}), limits())
    message = caught.value.message
    assert len(message) < 200 and "nan" not in message.lower() and "\ud800" not in message and "xxx" not in message


@given(
    field=st.sampled_from(sorted(asdict(SamplingParams()))),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.integers() | st.text(max_size=2), inner, max_size=3)
        ),
        max_leaves=6,
    ),
)
def test_no_value_of_any_type_does_worse_than_a_client_error(field: str, value: object) -> None:
    try:
        check_params(params(**{field: value}), limits())
    except ClientError as error:
        assert error.param is not None


def test_greedy_with_several_answers_is_refused() -> None:
    with pytest.raises(ClientError, match="n must be 1 when using greedy sampling") as caught:
        check_params(params(n=2, temperature=0), limits())
    assert caught.value.param == "n"
    check_params(params(n=2, temperature=0.5), limits())


def test_min_tokens_is_at_most_max_tokens() -> None:
    check_params(params(min_tokens=3, max_tokens=3), limits())
    check_params(params(min_tokens=3, max_tokens=None), limits())
    with pytest.raises(ClientError) as caught:
        check_params(params(min_tokens=4, max_tokens=3), limits())
    assert caught.value.param == "min_tokens"


def test_LEN_07_no_tokens_at_all_only_where_the_caller_allows_it() -> None:
    check_params(params(max_tokens=0), limits(), allow_zero=True)
    for wrong in (False, 0.0, -1):
        with pytest.raises(ClientError):
            check_params(params(max_tokens=wrong), limits(), allow_zero=True)
    with pytest.raises(ClientError) as caught:
        check_params(params(max_tokens=0, min_tokens=1), limits(), allow_zero=True)
    assert caught.value.param == "min_tokens"


def test_INP_06_all_log_probabilities_only_of_a_vocabulary_within_the_limit() -> None:
    tiny = limits(vocab_size=16, max_logprobs=16, eos_ids=())
    check_params(params(logprobs=-1, prompt_logprobs=-1), tiny)
    with pytest.raises(ClientError):
        check_params(params(prompt_logprobs=-1), limits(vocab_size=17, max_logprobs=16, eos_ids=()))


@pytest.mark.parametrize("field", ["stop", "bad_words"])
def test_STP_09_text_options_are_refused_by_name_without_a_tokenizer(field: str) -> None:
    with pytest.raises(ClientError, match="no tokenizer") as caught:
        bare_admission().check(params(**{field: ["x"]}))
    assert caught.value.param == field
    bare_admission().check(params(**{field: []}))


def test_STP_09_stop_strings_are_refused_where_nobody_decodes() -> None:
    with pytest.raises(ClientError) as caught:
        admission().check(params(stop=["x"], detokenize=False))
    assert caught.value.param == "stop"


@pytest.mark.parametrize(("field", "count"), [("stop", 500_000), ("bad_words", 50_000), ("stop_token_ids", 500_000)])
def test_STP_10_too_many_are_refused_by_their_count_alone(field: str, count: int) -> None:
    many: list[object] = [f"x{number}" for number in range(count)] if field != "stop_token_ids" else [1] * count
    started = perf_counter()
    with pytest.raises(ClientError, match="at most"):
        check_params(params(**{field: many}), limits())
    assert perf_counter() - started < 0.1


class TestRouting:
    @pytest.mark.parametrize("priority", [2**63, -(2**63) - 1, 1.0, True, "1", None])
    def test_priority_is_an_int64(self, priority: object) -> None:
        with pytest.raises(ClientError) as caught:
            check_routing(priority, "")  # type: ignore[arg-type]
        assert caught.value.param == "priority"

    @pytest.mark.parametrize("salt", ["a@b", "a/b", "a\\b", "a\0b", "x" * 129, "\ud800", 5, None])
    def test_cache_salt_is_a_short_plain_text(self, salt: object) -> None:
        with pytest.raises(ClientError) as caught:
            check_routing(0, salt)  # type: ignore[arg-type]
        assert caught.value.param == "cache_salt"

    def test_the_edges_are_inside(self) -> None:
        check_routing(-(2**63), "x" * 128)
        check_routing(2**63 - 1, "")
