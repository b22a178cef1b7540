"""An AsyncEngine that answers from a script: what frontends see of a client, without core, socket or clock.

It admits as the real one does. Its tokenizer is UTF-8: a token is a byte, 256 is BOS (put before texts), 257 is EOS.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import pack
from typing import Any

from engine.base.errors import ClientError
from engine.client.admit import Admission
from engine.client.check_params import check_ids, check_routing
from engine.client.limits import ModelLimits
from engine.client.liveness import Health
from engine.client.metrics import ClientMetrics
from engine.text import ChatTemplate
from engine.wire.chunk import Chunk
from engine.wire.output import LogprobRows
from engine.wire.params import SamplingParams

BOS, EOS = 256, 257
NAMES = {BOS: "<s>", EOS: "</s>"}
Item = Chunk | Exception | asyncio.Event
Script = Callable[[array, SamplingParams], Iterable[Item]]

LIMITS = ModelLimits(
    model_names=("tiny", "alias"),
    vocab_size=258,
    max_model_len=4096,
    bos_id=BOS,
    eos_ids=(EOS,),
    max_token_bytes=1,
)


def text_chunk(text: str, index: int = 0, **facts: Any) -> Chunk:
    """New text, one token a byte."""
    return Chunk(index, array("i", list(text.encode())), text, **facts)


def last_chunk(text: str = "", index: int = 0, reason: str = "stop", **facts: Any) -> Chunk:
    return text_chunk(text, index, finished=True, finish_reason=reason, **facts)


def pieces(*texts: str, reason: str = "stop") -> Script:
    """Every sibling answers these pieces, one chunk each, and ends with the last of them."""

    def script(_prompt: array, params: SamplingParams) -> Iterable[Item]:
        for place, text in enumerate(texts):
            for index in range(params.n):
                is_last = place == len(texts) - 1
                rows = logprob_rows(text.encode(), params.logprobs)
                yield (
                    last_chunk(text, index, reason, logprobs=rows)
                    if is_last
                    else text_chunk(text, index, logprobs=rows)
                )

    return script


def logprob_rows(token_ids: Sequence[int], alternatives: int | None) -> LogprobRows | None:
    """Token t is drawn with -0.5; the best alternatives are t itself, t ^ 1, t ^ 2, ... at -0.5, -1.5, -inf, ..."""
    if alternatives is None:
        return None
    width = 1 + alternatives
    values = [-0.5, -1.5, *[float("-inf")] * alternatives][:alternatives]
    ids = [one for token in token_ids for one in (token, *(token ^ place for place in range(alternatives)))]
    return LogprobRows(
        width,
        pack(f"<{len(ids)}i", *ids),
        pack(f"<{len(ids)}f", *[one for _ in token_ids for one in (-0.5, *values)]),
        pack(f"<{len(token_ids)}i", *[1] * len(token_ids)),
    )


class FakeStream:
    """A RequestStream over a script's items. A waiting get() ends when an asyncio.Event of the script is set."""

    def __init__(self, engine: FakeEngine, prompt: array, params: SamplingParams, items: Iterable[Item]) -> None:
        self.engine, self.params, self.items = engine, params, iter(items)
        self.prompt_token_ids = prompt
        self.num_siblings = self.num_left = params.n
        self.num_cached_tokens = engine.num_cached_tokens
        self.is_closed = False
        engine.open_streams.append(self)

    async def get(self) -> Chunk:
        while True:
            item = next(self.items)
            if isinstance(item, asyncio.Event):
                await item.wait()
            elif isinstance(item, Exception):
                raise item
            else:
                self.num_left -= item.finished
                await asyncio.sleep(0)
                return item

    @property
    def is_done(self) -> bool:
        return self.num_left == 0

    @property
    def prompt_logprobs(self) -> LogprobRows | None:
        return logprob_rows(self.prompt_token_ids[1:], self.params.prompt_logprobs)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.engine.open_streams.remove(self)
            self.engine.num_aborted += not self.is_done


class FakeTokenizer:
    """What /tokenizer_info reads."""

    def info(self) -> dict[str, object]:
        return {"bos_token": "<s>", "eos_token": "</s>", "chat_template": "from the tokenizer"}


class FakeText:
    """The text side of an engine with the tokenizer above, or without one."""

    def __init__(self, has_tokenizer: bool) -> None:
        self.has_tokenizer = has_tokenizer
        self.chat: ChatTemplate | None = None

    @property
    def tokenizer(self) -> FakeTokenizer:
        if not self.has_tokenizer:
            raise ClientError("this server has no tokenizer: use token ids")
        return FakeTokenizer()


class FakeEngine:
    """Records what it was asked in `asked`; `open_streams` is empty when nothing is owed."""

    def __init__(self, script: Script | None = None, limits: ModelLimits = LIMITS) -> None:
        self.script = script or pieces("Hello", " world", "!")
        self.limits = limits
        self.admission = Admission(limits, None)
        self.metrics = ClientMetrics("tiny")
        self.text = FakeText(limits.has_tokenizer)
        self.asked: list[tuple[array, SamplingParams, dict[str, Any]]] = []
        self.conversations: list[tuple[list[dict[str, Any]], dict[str, Any]]] = []
        self.open_streams: list[FakeStream] = []
        self.num_aborted = 0
        self.num_cached_tokens = 0
        self.refusal: Exception | None = None
        self.state = Health("healthy")

    async def generate(self, prompt: Any, params: SamplingParams, **options: Any) -> FakeStream:
        if self.refusal is not None:
            raise self.refusal
        self.check(params, allow_zero=options.get("allow_zero", False))
        check_routing(options.get("priority", 0), options.get("cache_salt", ""))
        adds = options.get("add_special_tokens", True)
        ids = self.encode(prompt, add_special_tokens=adds) if isinstance(prompt, str) else prompt
        tokens = self.admission.prompt_ids(ids, adds)
        self.asked.append((tokens, params, options))
        return FakeStream(self, tokens, params, self.script(tokens, params))

    def check(self, params: SamplingParams, *, allow_zero: bool = False) -> None:
        self.admission.check(params, allow_zero=allow_zero)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> array:
        if not self.limits.has_tokenizer:
            raise ClientError("no tokenizer", param="prompt")
        return array("i", ([BOS] if add_special_tokens else []) + list(text.encode()))

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        check_ids("tokens", token_ids, self.limits.vocab_size)
        return b"".join(
            b"" if skip_special_tokens and one in NAMES else self.token_bytes(one) for one in token_ids
        ).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        return NAMES[token_id].encode() if token_id in NAMES else bytes([token_id])

    async def encode_chat(self, messages: Sequence[Mapping[str, object]], **options: Any) -> array:
        if not self.limits.has_tokenizer:
            raise ClientError("no tokenizer", param="messages")
        self.conversations.append(([dict(one) for one in messages], options))
        return array("i", [BOS, *"".join(f"{one['role']}:{one['content']};" for one in messages).encode()])

    def health(self) -> Health:
        return self.state
