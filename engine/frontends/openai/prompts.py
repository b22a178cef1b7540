"""The `prompt` of a completion: one or many, text or token ids; and the cut to its last tokens.

Knows no sampling. The length check against the context is client/admit's.
"""

from __future__ import annotations

import asyncio
from array import array

from engine.base.errors import ClientError
from engine.client.async_engine import AsyncEngine
from engine.client.limits import ModelLimits

MAX_PROMPTS = 1024
Prompt = str | list[int]
# Shorter texts take less time to tokenize than a thread takes to start on them.
INLINE_CHARS = 2048


def prompts(prompt: str | list[str | int | list[int]]) -> list[Prompt]:
    """Every form of the field as a list of texts or token lists. Raises ClientError (param `prompt`)."""
    if isinstance(prompt, str):
        return [text(prompt)]
    if not prompt:
        raise refused("is empty")
    kinds = {type(item) for item in prompt}
    if len(kinds) > 1:
        raise refused("mixes texts and token ids")
    if kinds == {int}:
        return [[item for item in prompt if isinstance(item, int)]]
    if len(prompt) > MAX_PROMPTS:
        raise refused(f"holds more than {MAX_PROMPTS} prompts")
    return [ids(item) if isinstance(item, list) else text(str(item)) for item in prompt]


def text(prompt: str) -> str:
    if not prompt:
        raise refused("is empty")
    return prompt


def ids(prompt: list[int]) -> list[int]:
    if not prompt:
        raise refused("holds an empty list of token ids")
    return prompt


def refused(reason: str) -> ClientError:
    return ClientError(f"`prompt` {reason}.", param="prompt")


async def encode(engine: AsyncEngine, prompt: str, *, add_special_tokens: bool) -> array[int]:
    """Off the event loop where it would take long. Raises ClientError without a tokenizer."""
    if len(prompt) <= INLINE_CHARS:
        return engine.encode(prompt, add_special_tokens=add_special_tokens)
    return await asyncio.to_thread(engine.encode, prompt, add_special_tokens=add_special_tokens)


async def last_tokens(
    engine: AsyncEngine, prompt: Prompt | array[int], keep: int, *, add_special_tokens: bool
) -> array[int]:
    """The prompt's last `keep` tokens; -1: as many as leave room for one more."""
    if keep < -1 or keep == 0:
        raise ClientError("`truncate_prompt_tokens` is at least 1, or -1.", param="truncate_prompt_tokens")
    most = longest(keep, engine.limits)
    if isinstance(prompt, str):
        return (await encode(engine, prompt, add_special_tokens=add_special_tokens))[-most:]
    cut = prompt[-most:]
    return cut if isinstance(cut, array) else narrow(cut)


def longest(keep: int, limits: ModelLimits) -> int:
    if keep > limits.max_model_len:
        raise ClientError(
            f"`truncate_prompt_tokens` exceeds the context of {limits.max_model_len} tokens.",
            param="truncate_prompt_tokens",
        )
    return limits.max_prompt_len if keep == -1 else keep


def narrow(token_ids: list[int]) -> array[int]:
    try:
        return array("i", token_ids)
    except OverflowError:
        raise refused("holds a number that is no token id") from None
