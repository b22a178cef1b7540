"""What the served model allows, and what a request gets where it says nothing.

Made once by launch from the ModelSpec, the tokenizer and the configuration. Knows no request.
"""

from __future__ import annotations

from msgspec import Struct

from engine.wire.params import SamplingParams


class ModelLimits(Struct, frozen=True, kw_only=True):
    """model_names: the first is the one in answers, the others are aliases.

    defaults: SamplingParams of a request that sets nothing (from generation_config); a frontend fills each absent
    field from here. max_token_bytes: the most UTF-8 bytes of text that one token can stand for, 0 where unknown.
    seed: base of the seeds of requests that bring none; -1: unpredictable.
    """

    model_names: tuple[str, ...]
    vocab_size: int
    max_model_len: int
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    max_logprobs: int = 20
    max_num_choices: int = 128
    defaults: SamplingParams = SamplingParams()
    has_tokenizer: bool = True
    max_token_bytes: int = 0
    seed: int = -1

    @property
    def model_name(self) -> str:
        return self.model_names[0]

    @property
    def max_prompt_len(self) -> int:
        """The longest prompt that leaves room for one token."""
        return self.max_model_len - 1
