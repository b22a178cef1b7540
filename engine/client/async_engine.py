"""AsyncEngine: a served model as a coroutine sees it. Public.

Owns the way from a prompt to a RequestStream and the one callback that hands a step's deltas over.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from engine.client.limits import ModelLimits
from engine.client.liveness import Health
from engine.client.stream import RequestStream
from engine.wire.output import CoreStats, Ready
from engine.wire.params import SamplingParams


class AsyncEngine:
    """One model over one ClientEnd. All methods belong to the event loop's thread."""

    limits: ModelLimits
    ready: Ready | None
    stats: CoreStats

    async def wait_ready(self) -> Ready:
        """Returns when the core serves. Raises EngineDead when it ends before that."""
        raise NotImplementedError

    async def generate(
        self,
        prompt: str | array[int] | Sequence[int],
        params: SamplingParams,
        *,
        priority: int = 0,
        cache_salt: str = "",
        add_special_tokens: bool = True,
        allow_zero: bool = False,
    ) -> RequestStream:
        """Checks, tokenizes and submits. The caller owns the stream and must close it (it is a context manager).

        allow_zero: max_tokens=0 is legal (completions echo): the stream's one chunk has no token and finish "length".
        Raises ClientError (with `param`), PromptTooLong, CapacityError, EngineDead.
        """
        raise NotImplementedError

    def check(self, params: SamplingParams, *, allow_zero: bool = False) -> None:
        """The checks of `generate` that need no prompt, so that many prompts of one body fail before any runs."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> array[int]:
        """Raises ClientError without a tokenizer."""
        raise NotImplementedError

    def decode(self, token_ids: array[int] | Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Raises ClientError without a tokenizer, or for an id outside the vocabulary (param `tokens`)."""
        raise NotImplementedError

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes one token stands for, special tokens by their name: the `token` and `bytes` of a logprob entry."""
        raise NotImplementedError

    async def encode_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        template_kwargs: Mapping[str, object] | None = None,
    ) -> array[int]:
        """The model's chat template, then its tokens (off the loop when long). Raises ClientError (param `messages`)."""
        raise NotImplementedError

    async def call(self, method: str, payload: bytes = b"", timeout_s: float = 10.0) -> bytes:
        """Runs a method of wire/methods in the core. Raises EngineFault for its typed error or a missed deadline."""
        raise NotImplementedError

    def health(self) -> Health:
        """Decided now, from heartbeats and what the operating system says of the core."""
        raise NotImplementedError

    async def close(self) -> None:
        """Ends every stream with an Abort and says good-bye to the core. Safe to call twice."""
