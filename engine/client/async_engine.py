"""AsyncEngine: a served model as a coroutine sees it. Public.

Owns the way from a prompt to a RequestStream and the one callback that hands a step's outputs over.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping, Sequence

from msgspec import DecodeError

from engine.base.clock import Clock
from engine.base.errors import EngineDead
from engine.base.ids import RequestIds
from engine.client.admit import Admission, Prompt
from engine.client.calls import PendingCalls
from engine.client.limits import ModelLimits
from engine.client.liveness import HEALTHY, Health, Liveness
from engine.client.metrics import ClientMetrics
from engine.client.requests import RequestTable
from engine.client.stream import RequestStream
from engine.client.text_side import TextSide
from engine.text.chat import ChatTemplate
from engine.wire.channel import ClientEnd
from engine.wire.output import CoreStats, FromCore, Ready, Reply, StepOutput, Stopped
from engine.wire.params import SamplingParams
from engine.wire.request import ToCore

INLINE_CHARS = 2048
"""Shorter texts take less time to tokenize than a thread takes to start on them."""
SAMPLE_S = 1.0


class AsyncEngine:
    """One model over one ClientEnd. All methods belong to the event loop's thread.

    Whoever owns the end's descriptor calls `pump` when it is readable; after sends the engine pumps by itself.
    """

    def __init__(
        self,
        end: ClientEnd,
        admission: Admission,
        chat: ChatTemplate | None,
        clock: Clock,
        metrics: ClientMetrics,
        *,
        api_index: int = 0,
    ) -> None:
        self.end = end
        self.admission = admission
        self.text = TextSide(admission, chat)
        self.clock = clock
        self.metrics = metrics
        self.ready: Ready | None = None
        self.stats = CoreStats()
        self.death: str | None = None
        """Why nothing can be served any more."""
        self.is_pump_due = False
        self.table = RequestTable(self.send, admission.tokenizer, clock, metrics, RequestIds(api_index))
        self.calls = PendingCalls(self.send)
        self.starting: list[asyncio.Future[Ready]] = []
        self.liveness: Liveness | None = None
        self.sampling: asyncio.TimerHandle | None = None

    @property
    def limits(self) -> ModelLimits:
        return self.admission.limits

    async def wait_ready(self) -> Ready:
        """Returns when the core serves. Raises EngineDead when it ends before that."""
        self.check_alive()
        if self.ready is not None:
            return self.ready
        future: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self.starting.append(future)
        try:
            return await future
        finally:
            self.starting.remove(future)

    def check(self, params: SamplingParams, *, allow_zero: bool = False) -> None:
        """The checks of `generate` that need no prompt, so that many prompts of one body fail before any runs."""
        self.admission.check(params, allow_zero=allow_zero)

    async def generate(
        self,
        prompt: Prompt,
        params: SamplingParams,
        *,
        priority: int = 0,
        cache_salt: str = "",
        add_special_tokens: bool = True,
        allow_zero: bool = False,
    ) -> RequestStream:
        """Checks, tokenizes and submits. The caller owns the stream and must close it (it is a context manager).

        allow_zero: max_tokens=0 is legal (completions echo): the stream's one chunk has no token and finish "length".
        Raises ClientError (with `param`), PromptTooLong, EngineDead. A full queue is told by the stream.
        """
        self.check_alive()
        self.admission.check(params, allow_zero=allow_zero)
        if isinstance(prompt, str) and len(prompt) > INLINE_CHARS:
            prompt = await asyncio.to_thread(self.admission.encode, prompt, add_special_tokens=add_special_tokens)
            self.check_alive()
        admitted = self.admission.admit(
            prompt,
            params,
            priority=priority,
            cache_salt=cache_salt,
            add_special_tokens=add_special_tokens,
            allow_zero=allow_zero,
        )
        # Nothing is awaited from here on: a caller that is cancelled has either no request or its stream.
        return self.table.open(admitted)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> array[int]:
        """Any text's tokens, however many, "" included. Raises ClientError without a tokenizer."""
        return self.text.encode(text, add_special_tokens=add_special_tokens)

    def decode(self, token_ids: array[int] | Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Raises ClientError without a tokenizer, or for an id outside the vocabulary (param `tokens`)."""
        return self.text.decode(token_ids, skip_special_tokens=skip_special_tokens)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes one token stands for, special tokens by their name: the `token` and `bytes` of a logprob entry."""
        return self.text.token_bytes(token_id)

    async def encode_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        template_kwargs: Mapping[str, object] | None = None,
    ) -> array[int]:
        """The model's chat template, then its tokens; off the loop when long. Raises ClientError."""
        conversation = self.text.conversation(
            messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            template_kwargs=template_kwargs,
        )
        if conversation.num_chars <= INLINE_CHARS:
            return conversation.encode()
        return await asyncio.to_thread(conversation.encode)

    async def call(self, method: str, payload: bytes = b"", timeout_s: float = 10.0) -> bytes:
        """Runs a method of wire/methods in the core. Raises EngineFault for its typed error or a missed deadline."""
        self.check_alive()
        return await self.calls.call(method, payload, timeout_s)

    def health(self) -> Health:
        """Decided now, from heartbeats and what the operating system says of the core."""
        if self.death is not None:
            return Health("dead", self.death)
        if self.ready is None:
            return Health("starting", "the model is being loaded")
        return HEALTHY if self.liveness is None else self.liveness.check()

    def watch(self, liveness: Liveness) -> None:
        """From now on health is what `liveness` says; its process is looked at once a second until close."""
        self.liveness = liveness
        self.sample()

    def sample(self) -> None:
        if self.liveness is not None and self.death is None:
            self.liveness.sample()
            self.sampling = asyncio.get_running_loop().call_later(SAMPLE_S, self.sample)

    def pump(self) -> None:
        """Takes all that the core has sent. One callback hands a whole step over, never a part of it."""
        self.is_pump_due = False
        try:
            while self.death is None and (messages := self.end.receive()):
                for message in messages:
                    self.deliver(message)
        except DecodeError as error:
            # What was lost with it, nobody can tell: waiting for it would be for ever.
            self.core_died(f"the engine core sent what cannot be read: {error}")

    def deliver(self, message: FromCore) -> None:
        match message:
            case StepOutput():
                self.stats = message.stats
                if self.liveness is not None:
                    self.liveness.heard(message.stats)
                self.table.deliver(message)
            case Reply():
                self.calls.deliver(message)
            case Ready():
                self.ready = message
                self.metrics.ready(message)
                for future in self.starting:
                    if not future.done():
                        future.set_result(message)
            case Stopped():
                self.core_died(message.reason)

    def send(self, message: ToCore) -> None:
        """An edge-triggered descriptor may stay silent after a send, so what has come by then is taken soon."""
        if self.death is not None:
            return
        self.end.send(message)
        if not self.is_pump_due:
            self.is_pump_due = True
            asyncio.get_running_loop().call_soon(self.pump)

    def core_died(self, reason: str) -> None:
        """Nothing more will come: whoever waits gets EngineDead, and so does every later request. The first counts."""
        if self.death is None:
            self.death = reason
            self.fail_everyone(reason)

    def fail_everyone(self, reason: str) -> None:
        self.table.fail_all(reason)
        self.calls.fail_all(reason)
        for future in self.starting:
            if not future.done():
                future.set_exception(EngineDead(reason))

    def check_alive(self) -> None:
        if self.death is not None:
            raise EngineDead(self.death)

    async def close(self) -> None:
        """Ends every stream, the core's side with one Abort, and says good-bye to the core. Safe to call twice."""
        if self.sampling is not None:
            self.sampling.cancel()
        if self.death is None:
            reason = "the engine is shutting down"
            self.table.abort(self.table.fail_all(reason))
            self.core_died(reason)
        self.end.close()
