"""Admission: from what a caller asks to what the core is told. The only validation in the project.

Everything here is pure and holds no request; `encode` may run in any thread.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from engine.base.errors import ClientError, PromptTooLong
from engine.client.check_params import (
    check_ids,
    check_params,
    check_routing,
    is_greedy,
    is_unicode,
    num_logprobs,
    strings,
)
from engine.client.limits import ModelLimits
from engine.client.seeds import Seeds, sibling_seed
from engine.text.stops import stop_ids
from engine.text.tokenizer import Tokenizer
from engine.wire.params import SamplingParams
from engine.wire.request import Sampling

Prompt: TypeAlias = "str | array[int] | Sequence[int]"
MIN_TEMPERATURE = 0.01
"""Between greedy and this a temperature counts as this: float32 logits divided by less overflow (vLLM does so too)."""
MIN_TOP_P = 1e-9
"""top_p 0, which OpenAI accepts, means the best token alone."""
MAX_LOGIT_BIAS = 100.0


class TextRules(Struct, frozen=True):
    """How an answer's tokens become text. stop_names: end ids that some stop string names."""

    stop: tuple[str, ...] = ()
    stop_names: dict[int, str] = {}
    include_stop: bool = False
    min_tokens: int = 0
    """Text of so many first tokens takes part in no stop string."""
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True


class Admitted(Struct, frozen=True):
    """A request that may run. sampling: one per sibling. text None: nobody decodes. own_ends: the model's end ids.

    prompt_only: max_tokens was 0. The core draws one token all the same, and the assembler drops it.
    """

    prompt_ids: array[int]
    sampling: tuple[Sampling, ...]
    text: TextRules | None
    own_ends: tuple[int, ...] = ()
    priority: int = 0
    cache_salt: str = ""
    prompt_only: bool = False


class Admission:
    """The gate of one model."""

    def __init__(self, limits: ModelLimits, tokenizer: Tokenizer | None) -> None:
        self.limits = limits
        self.tokenizer = tokenizer
        self.seeds = Seeds(limits.seed)

    def check(self, params: SamplingParams, *, allow_zero: bool = False) -> None:
        """All checks that need no prompt. Raises ClientError naming the field."""
        check_params(params, self.limits, allow_zero=allow_zero)

    def admit(
        self,
        prompt: Prompt,
        params: SamplingParams,
        *,
        priority: int = 0,
        cache_salt: str = "",
        add_special_tokens: bool = True,
        allow_zero: bool = False,
    ) -> Admitted:
        """Raises ClientError naming the field, PromptTooLong where no room is left for an answer."""
        self.check(params, allow_zero=allow_zero)
        check_routing(priority, cache_salt)
        prompt_ids = self.prompt_ids(prompt, add_special_tokens)
        return Admitted(
            prompt_ids,
            self.resolve(params, self.limits.max_model_len - len(prompt_ids)),
            self.text_rules(params),
            () if params.ignore_eos else self.limits.eos_ids,
            priority,
            cache_salt,
            prompt_only=params.max_tokens == 0,
        )

    def prompt_ids(self, prompt: Prompt, add_special_tokens: bool) -> array[int]:
        """The prompt's tokens, a fresh or a borrowed array. Raises ClientError (param `prompt`), PromptTooLong."""
        if isinstance(prompt, str):
            ids = self.encode(prompt, add_special_tokens=add_special_tokens)
        elif isinstance(prompt, array | list | tuple):
            self.check_length(len(prompt))
            check_ids("prompt", prompt, self.limits.vocab_size)
            ids = prompt if isinstance(prompt, array) and prompt.typecode == "i" else array("i", prompt)
        else:
            raise ClientError("prompt must be a text or a list of token ids", param="prompt")
        if not ids:
            raise ClientError("prompt must not be empty", param="prompt")
        self.check_length(len(ids))
        return ids

    def encode(self, prompt: str, *, add_special_tokens: bool = True) -> array[int]:
        """A prompt's tokens. One that cannot fit is refused unread. Raises ClientError (param `prompt`)."""
        if self.tokenizer is None:
            raise ClientError("this server has no tokenizer: send token ids", param="prompt")
        if not prompt:
            raise ClientError("prompt must not be empty", param="prompt")
        if not is_unicode(prompt):
            raise ClientError("prompt must be valid Unicode", param="prompt")
        self.check_text_length(len(prompt.encode()))
        return self.tokenizer.encode(prompt, add_special_tokens=add_special_tokens)

    def check_text_length(self, num_bytes: int) -> None:
        """Raises PromptTooLong for text that cannot fit, however well it is tokenized: so it is not even tried."""
        if most := self.limits.max_token_bytes:
            self.check_length(-(-num_bytes // most), "at least ")

    def check_length(self, num_tokens: int, at_least: str = "") -> None:
        if num_tokens > self.limits.max_prompt_len:
            raise PromptTooLong(
                f"This model's maximum context length is {self.limits.max_model_len} tokens. However, your prompt "
                f"contains {at_least}{num_tokens} input tokens, which leaves no room for an answer. "
                "Please reduce the length of the prompt.",
                param="input_tokens",
                code="context_length_exceeded",
            )

    def resolve(self, params: SamplingParams, room: int) -> tuple[Sampling, ...]:
        """One Sampling per sibling; they differ in their seeds, and only the first scores the prompt."""
        limits = self.limits
        max_tokens = min(room, params.max_tokens or (1 if params.max_tokens == 0 else room))
        seed = self.seeds.draw() if params.seed is None else params.seed
        first = Sampling(
            max_tokens=max_tokens,
            min_tokens=min(params.min_tokens, max_tokens),
            end_ids=self.end_ids(params),
            temperature=0.0 if is_greedy(params) else max(params.temperature, MIN_TEMPERATURE),
            top_k=0 if params.top_k in (-1, 0) or params.top_k >= limits.vocab_size else params.top_k,
            top_p=max(params.top_p, MIN_TOP_P),
            min_p=params.min_p,
            presence_penalty=params.presence_penalty,
            frequency_penalty=params.frequency_penalty,
            repetition_penalty=params.repetition_penalty,
            seed=seed,
            logprobs=None if params.logprobs is None else num_logprobs(params.logprobs, limits),
            prompt_logprobs=None if params.prompt_logprobs is None else num_logprobs(params.prompt_logprobs, limits),
            bias_ids=tuple(params.logit_bias or ()),
            bias_values=tuple(clamp(bias) for bias in (params.logit_bias or {}).values()),
            allowed_ids=tuple(sorted(set(params.allowed_token_ids or ()))),
            bad_sequences=self.bad_sequences(params.bad_words or ()),
        )
        others = [replace(first, seed=sibling_seed(seed, index), prompt_logprobs=None) for index in range(1, params.n)]
        return (first, *others)

    def end_ids(self, params: SamplingParams) -> tuple[int, ...]:
        """The model's own, unless ignored; those asked for; those that a stop string names. Each once."""
        own = () if params.ignore_eos else self.limits.eos_ids
        return tuple(dict.fromkeys([*own, *(params.stop_token_ids or ()), *self.stop_names(params)]))

    def stop_names(self, params: SamplingParams) -> dict[int, str]:
        stops = strings(params.stop)
        return stop_ids(self.tokenizer, stops) if stops and self.tokenizer is not None else {}

    def bad_sequences(self, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Each word as it stands at a beginning and after a space: tokenizers spell the two differently."""
        if self.tokenizer is None:
            return ()
        spellings = [text for word in words for text in (word, " " + word.lstrip())]
        found = [tuple(self.tokenizer.encode(text, add_special_tokens=False)) for text in spellings]
        return tuple(dict.fromkeys(filter(None, found)))

    def text_rules(self, params: SamplingParams) -> TextRules | None:
        if self.tokenizer is None or not params.detokenize:
            return None
        return TextRules(
            stop=tuple(strings(params.stop) or ()),
            stop_names=self.stop_names(params),
            include_stop=params.include_stop_str_in_output,
            min_tokens=params.min_tokens,
            skip_special_tokens=params.skip_special_tokens,
            spaces_between_special_tokens=params.spaces_between_special_tokens,
        )


def clamp(bias: float) -> float:
    """OpenAI's range, as vLLM applies it: what lies outside counts as its end."""
    return min(MAX_LOGIT_BIAS, max(-MAX_LOGIT_BIAS, float(bias)))
