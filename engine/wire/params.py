"""SamplingParams: what a caller asks of each answer, in vLLM's names. Public; sent to nobody as it is.

client/admit checks it and resolves it into wire.request.Sampling, which is what travels.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class SamplingParams(Struct, frozen=True, kw_only=True):
    """How to draw the tokens of an answer, and when to stop. Ranges are checked in client/admit only.

    n: answers per prompt. temperature: 0 is greedy. top_k: 0 or -1 is off. seed: the same seed gives the same
    answer in any batch. stop: up to four strings (one may stand alone). logprobs: alternatives per answered token
    (0: only the token's own). prompt_logprobs: the same for the prompt. max_tokens None: the room that is left.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    bad_words: Sequence[str] | None = None
    allowed_token_ids: Sequence[int] | None = None
    logit_bias: dict[int, float] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
