"""From a decoded body to SamplingParams and prompts: each field is read here, or refused by name.

Owns the defaults that the two endpoints do not share. Ranges of values are client/admit's.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import asdict, replace

from engine.base.errors import ClientError, ModelNotFound
from engine.client.limits import ModelLimits
from engine.frontends.openai.protocol import ChatRequest, Common, CompletionRequest
from engine.wire.params import SamplingParams

COMPLETION_MAX_TOKENS = 16
# Fields that mean the same under the same name in a body and in SamplingParams.
SAME = frozenset(SamplingParams.__struct_fields__) & frozenset(Common.__struct_fields__) - {"max_tokens", "logit_bias"}
# Fields that would change the answer in a way this version cannot, and the values that ask for nothing.
REFUSED: dict[str, tuple[object, ...]] = {
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "response_format": ({"type": "text"},),
    "kv_transfer_params": (),
    "use_beam_search": (False,),
    "logits_processors": ([],),
    "suffix": ("",),
    "prompt_embeds": (),
    "tools": (),
    "tool_choice": ("none", "auto"),
    "functions": (),
    "function_call": ("none", "auto"),
    "chat_template": (),
    "documents": ([],),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
}


def refuse(fields: Struct) -> None:
    """Raises ClientError for the first field that this version does not serve.

    400 and not 501, as OpenAI answers parameters that a model lacks: its clients retry what is 500 and above.
    """
    for name, value in asdict(fields).items():
        if value is not None and name in REFUSED and value not in REFUSED[name]:
            message = f"`{name}` is not supported by this version of the server."
            raise ClientError(message, param=name, code="unsupported_parameter")


def check_model(model: str | None, limits: ModelLimits) -> None:
    """Null and "" are the served model. Raises ModelNotFound, which does not repeat the name."""
    if model and model not in limits.model_names:
        served = ", ".join(limits.model_names)
        raise ModelNotFound(f"This model is not served here; served: {served}.", param="model", code="model_not_found")


def check_stream(fields: Common) -> None:
    if fields.stream_options is not None and not fields.stream:
        raise ClientError("`stream_options` goes with `stream: true` only.", param="stream_options")
    if fields.prompt_logprobs is not None and fields.stream:
        raise ClientError("`prompt_logprobs` does not go with `stream: true`.", param="prompt_logprobs")


def chat_params(fields: ChatRequest, defaults: SamplingParams) -> SamplingParams:
    """Left-out max_tokens: all the room there is. Raises ClientError."""
    if fields.top_logprobs is not None and not fields.logprobs:
        raise ClientError("`top_logprobs` goes with `logprobs: true` only.", param="top_logprobs")
    logprobs = (fields.top_logprobs or 0) if fields.logprobs else None
    return params(fields, defaults, max_tokens=answer_length(fields), logprobs=logprobs)


def completion_params(fields: CompletionRequest, defaults: SamplingParams) -> SamplingParams:
    """Left-out max_tokens: 16. With echo, the logprobs of the prompt are asked for as well. Raises ClientError."""
    choices = 1 if fields.n is None else fields.n
    if fields.best_of is not None and fields.best_of != choices:
        raise ClientError("`best_of` other than `n` is not supported.", param="best_of")
    length = answer_length(fields)
    wanted = params(
        fields,
        defaults,
        max_tokens=COMPLETION_MAX_TOKENS if length is None else length,
        logprobs=fields.logprobs,
    )
    if not fields.echo or fields.logprobs is None:
        return wanted
    rows = widest(fields.logprobs, fields.prompt_logprobs)
    return replace(wanted, prompt_logprobs=rows)


def answer_length(fields: Common) -> int | None:
    return fields.max_tokens if fields.max_completion_tokens is None else fields.max_completion_tokens


def params(fields: Common, defaults: SamplingParams, *, max_tokens: int | None, logprobs: int | None) -> SamplingParams:
    given = {name: value for name, value in asdict(fields).items() if value is not None and name in SAME}
    bias = defaults.logit_bias if fields.logit_bias is None else token_keys(fields.logit_bias)
    return replace(defaults, **{**given, "logit_bias": bias, "max_tokens": max_tokens, "logprobs": logprobs})


def widest(first: int, second: int | None) -> int:
    """The wider of two numbers of alternatives; -1 is all of them."""
    if second is None:
        return first
    return -1 if -1 in (first, second) else max(first, second)


def token_keys(bias: dict[str, float]) -> dict[int, float]:
    """JSON has string keys only."""
    for key in bias:
        if not re.fullmatch(r"-?[0-9]{1,18}", key):
            raise ClientError("The keys of `logit_bias` are token ids.", param="logit_bias")
    return {int(key): value for key, value in bias.items()}
