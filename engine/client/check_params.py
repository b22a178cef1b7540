"""The ranges of every sampling parameter, in one table; the same for every way in.

Ranges and messages follow vLLM's where it has them. No message repeats what the caller sent.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import asdict

from engine.base.errors import ClientError
from engine.client.limits import ModelLimits
from engine.wire.params import SamplingParams

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
FLOAT_MAX = sys.float_info.max
UNBOUNDED = math.inf
GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy (vLLM's _SAMPLING_EPS)."""
MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY = 1e-6, 1e6
"""Wider ones would take float32 logits to infinity."""
MAX_STOP_STRINGS = 4
MAX_BAD_WORDS = 128
MAX_STRING_CHARS = 1024
"""Of one stop string or bad word: work per token is bounded by the request's limits, not by its size."""
MAX_STOP_TOKEN_IDS = 256
MAX_CACHE_SALT_CHARS = 128
CACHE_SALT_FORBIDS = "@/\\\0"


class Range(NamedTuple):
    """low and high are allowed themselves. kind int: an int and no bool; float: an int or a finite float."""

    field: str
    kind: type[int] | type[float]
    low: float
    high: float
    message: str
    is_optional: bool = False


RANGES = (
    Range("n", int, 1, UNBOUNDED, "n must be at least 1"),
    Range("temperature", float, 0.0, 2.0, "temperature must be in [0, 2]"),
    Range("top_p", float, 0.0, 1.0, "top_p must be in (0, 1]"),
    Range("top_k", int, -1, UNBOUNDED, "top_k must be 0 or -1 (off), or at least 1"),
    Range("min_p", float, 0.0, 1.0, "min_p must be in [0, 1]"),
    Range("presence_penalty", float, -2.0, 2.0, "presence_penalty must be in [-2, 2]"),
    Range("frequency_penalty", float, -2.0, 2.0, "frequency_penalty must be in [-2, 2]"),
    Range(
        "repetition_penalty",
        float,
        MIN_REPETITION_PENALTY,
        MAX_REPETITION_PENALTY,
        f"repetition_penalty must be greater than 0, and in [{MIN_REPETITION_PENALTY:g}, {MAX_REPETITION_PENALTY:g}]",
    ),
    Range("seed", int, INT64_MIN, INT64_MAX, "seed must be an integer of 64 bits", is_optional=True),
    Range("max_tokens", int, 1, UNBOUNDED, "max_tokens must be at least 1", is_optional=True),
    Range("min_tokens", int, 0, UNBOUNDED, "min_tokens must be at least 0"),
    Range("logprobs", int, -1, UNBOUNDED, "logprobs must be at least 0", is_optional=True),
    Range("prompt_logprobs", int, -1, UNBOUNDED, "prompt_logprobs must be at least 0", is_optional=True),
)
PRIORITY = Range("priority", int, INT64_MIN, INT64_MAX, "priority must be an integer of 64 bits")
FLAGS = (
    "include_stop_str_in_output",
    "ignore_eos",
    "detokenize",
    "skip_special_tokens",
    "spaces_between_special_tokens",
)


def check_params(params: SamplingParams, limits: ModelLimits, *, allow_zero: bool = False) -> None:
    """Raises ClientError with `param` set to the first field that is wrong. allow_zero: max_tokens may be 0."""
    values = asdict(params)
    if allow_zero and is_int(params.max_tokens) and params.max_tokens == 0:
        values["max_tokens"] = None
    for rule in RANGES:
        check_range(rule, values[rule.field])
    for field in FLAGS:
        if type(values[field]) is not bool:
            raise ClientError(f"{field} must be true or false", param=field)
    check_combinations(params, limits)
    check_token_ids(params, limits.vocab_size)
    check_strings("stop", strings(params.stop), MAX_STOP_STRINGS)
    check_strings("bad_words", params.bad_words, MAX_BAD_WORDS)
    check_needs_text(params, limits)


def check_range(rule: Range, value: object) -> None:
    """NaN lies in no range."""
    if value is None and rule.is_optional:
        return
    is_kind = is_number(value) if rule.kind is float else is_int(value)
    if not is_kind or not rule.low <= value <= rule.high:  # type: ignore[operator]  # is_kind: a number
        raise ClientError(rule.message, param=rule.field)


def is_int(value: object) -> bool:
    """JSON's true and false are no numbers."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_greedy(params: SamplingParams) -> bool:
    return params.temperature < GREEDY_BELOW


def check_combinations(params: SamplingParams, limits: ModelLimits) -> None:
    if params.n > limits.max_num_choices:
        raise ClientError(f"n must be at most {limits.max_num_choices}", param="n")
    if params.n > 1 and is_greedy(params):
        raise ClientError("n must be 1 when using greedy sampling", param="n")
    if params.max_tokens is not None and params.min_tokens > params.max_tokens:
        raise ClientError("min_tokens must be at most max_tokens", param="min_tokens")
    for field, asked in (("logprobs", params.logprobs), ("prompt_logprobs", params.prompt_logprobs)):
        if num_logprobs(asked, limits) > limits.max_logprobs:
            raise ClientError(f"{field} must be at most {limits.max_logprobs}", param=field)


def num_logprobs(asked: int | None, limits: ModelLimits) -> int:
    """Alternatives per token; -1 is the whole vocabulary, and so within the limit on tiny models only."""
    return limits.vocab_size if asked == -1 else asked or 0


def check_token_ids(params: SamplingParams, vocab_size: int) -> None:
    """The one check of every field that holds token ids."""
    fields: dict[str, object] = {
        "stop_token_ids": params.stop_token_ids,
        "allowed_token_ids": params.allowed_token_ids,
        "logit_bias": params.logit_bias,
    }
    for field, ids in fields.items():
        if ids is None:
            continue
        if not isinstance(ids, dict if field == "logit_bias" else Sequence) or isinstance(ids, str | bytes):
            raise ClientError(f"{field} must hold token ids", param=field)
        if field == "stop_token_ids" and len(ids) > MAX_STOP_TOKEN_IDS:
            raise ClientError(f"stop_token_ids must hold at most {MAX_STOP_TOKEN_IDS} ids", param=field)
        check_ids(field, ids, vocab_size)
    if params.allowed_token_ids is not None and not params.allowed_token_ids:
        raise ClientError("allowed_token_ids must not be empty", param="allowed_token_ids")
    biases = (params.logit_bias or {}).values()
    if not all(is_number(bias) and -FLOAT_MAX <= bias <= FLOAT_MAX for bias in biases):
        raise ClientError("logit_bias must hold finite numbers", param="logit_bias")


def is_number(value: object) -> bool:
    return is_int(value) or isinstance(value, float)


def check_ids(field: str, ids: Iterable[object], vocab_size: int) -> None:
    """Raises ClientError unless each is an int (no bool) of the vocabulary. Walks the ids at C speed."""
    if isinstance(ids, array):  # Its type says already that they are integers.
        if ids and (min(ids) < 0 or max(ids) >= vocab_size):
            raise ClientError(f"{field} must hold token ids of the vocabulary, 0 to {vocab_size - 1}", param=field)
        return
    known = list(ids)
    if not set(map(type, known)) <= {int}:
        raise ClientError(f"{field} must hold integers", param=field)
    numbers = [number for number in known if isinstance(number, int)]
    if numbers and (min(numbers) < 0 or max(numbers) >= vocab_size):
        raise ClientError(f"{field} must hold token ids of the vocabulary, 0 to {vocab_size - 1}", param=field)


def strings(stop: str | Sequence[str] | None) -> Sequence[str] | None:
    """A stop string may stand alone."""
    return (stop,) if isinstance(stop, str) else stop


def check_strings(field: str, given: Sequence[str] | None, most: int) -> None:
    if given is None:
        return
    if not isinstance(given, list | tuple):
        raise ClientError(f"{field} must be a list of strings", param=field)
    if len(given) > most:
        raise ClientError(f"{field} must hold at most {most} strings", param=field)
    for text in given:
        if not isinstance(text, str) or not text:
            raise ClientError(f"{field} must hold strings that are not empty", param=field)
        if len(text) > MAX_STRING_CHARS:
            raise ClientError(f"a string in {field} must have at most {MAX_STRING_CHARS} characters", param=field)
        if not is_unicode(text):
            raise ClientError(f"{field} must hold valid Unicode", param=field)


def is_unicode(text: str) -> bool:
    """No half of a surrogate pair stands alone (JSON's \\ud800 makes one): nothing could encode it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_needs_text(params: SamplingParams, limits: ModelLimits) -> None:
    """What would silently have no effect where nobody turns tokens into text, or text into tokens, is refused."""
    if not limits.has_tokenizer:
        for field, given in (("stop", params.stop), ("bad_words", params.bad_words)):
            if given:
                raise ClientError(f"{field} is not supported: this server has no tokenizer; use token ids", param=field)
    if params.stop and not params.detokenize:
        raise ClientError("stop needs detokenize to be true", param="stop")


def check_routing(priority: int, cache_salt: str) -> None:
    """What accompanies a prompt. Raises ClientError."""
    check_range(PRIORITY, priority)
    is_text = isinstance(cache_salt, str) and is_unicode(cache_salt)
    if not is_text or len(cache_salt) > MAX_CACHE_SALT_CHARS or set(cache_salt) & set(CACHE_SALT_FORBIDS):
        raise ClientError(
            f"cache_salt must have 1 to {MAX_CACHE_SALT_CHARS} characters, none of them @ / \\ or NUL",
            param="cache_salt",
        )
