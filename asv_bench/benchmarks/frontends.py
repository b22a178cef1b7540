"""One streamed token from the client's chunk to the ASGI message, without socket and without engine."""

from __future__ import annotations

import asyncio
from array import array

from starlette.types import Message

from engine.client.limits import ModelLimits
from engine.frontends.openai import sse
from engine.frontends.openai.answers import Answers
from engine.frontends.openai.body import decode
from engine.frontends.openai.chat_writer import ChatWriter
from engine.frontends.openai.logprobs import LogprobStyle
from engine.frontends.openai.output import Output
from engine.frontends.openai.protocol import chat_decoder
from engine.frontends.openai.responses import ChatChunk, ChatChunkChoice, ChatDelta
from engine.frontends.openai.service import Head
from engine.frontends.openai.streaming import EventStream
from engine.frontends.openai.token_texts import TokenTexts
from engine.frontends.openai.usage import Tally
from engine.wire.chunk import Chunk

HEAD = Head("chatcmpl-3f000000000000000000000000000000", 1_790_000_000, "SmolLM2-135M-Instruct")
NUM_CHUNKS = 1000
BODY = b'{"messages":[%b],"stream":true}' % b",".join([b'{"role":"user","content":"%b"}' % (b"x" * 200)] * 10)


class EndlessStream:
    """A RequestStream of NUM_CHUNKS one-token chunks that are always there."""

    num_siblings = 1
    num_cached_tokens = 0
    prompt_logprobs = None

    def __init__(self) -> None:
        self.prompt_token_ids = array("i", [1, 2, 3])
        self.left = NUM_CHUNKS

    async def get(self) -> Chunk:
        self.left -= 1
        is_last = not self.left
        return Chunk(0, array("i", [5]), " hello", is_last, "length" if is_last else None)

    @property
    def is_done(self) -> bool:
        return not self.left

    def close(self) -> None:
        self.left = 0


class BareEngine:
    """What naming a token asks of an engine."""

    limits = ModelLimits(model_names=("bench",), vocab_size=8, max_model_len=8)


def output(stream: EndlessStream) -> Output:
    style = LogprobStyle(TokenTexts(BareEngine()), 0)
    return Output(HEAD, [stream], Tally([stream]), style, None, shows_ids=False, wants_usage=False, usage_in_all=False)


async def nothing(_message: Message) -> None:
    """A send that costs nothing."""


async def never() -> Message:
    """A client that stays."""
    return await asyncio.Event().wait() or {}


class Stream:
    """1,000 events; us per event is ms of this."""

    version = "1"

    def time_stream_1000_events(self) -> None:
        stream = EndlessStream()
        response = EventStream(Answers([stream]), ChatWriter(output(stream)))
        asyncio.run(response({"type": "http"}, never, nothing))


class Frame:
    """The byte template beside the encoder that it replaces, in one run."""

    version = "1"

    def setup(self) -> None:
        self.writer = ChatWriter(output(EndlessStream()))

    def time_template(self) -> None:
        for _ in range(1000):
            self.writer.template.fill(0, " hello")

    def time_struct_encoder(self) -> None:
        for _ in range(1000):
            choice = ChatChunkChoice(0, ChatDelta(content=" hello"))
            sse.event(ChatChunk(HEAD.id, "chat.completion.chunk", HEAD.created, HEAD.model, [choice]))


class Body:
    """A chat body of 2 kB and ten messages, from bytes to fields."""

    version = "1"

    def time_decode(self) -> None:
        decode(BODY, chat_decoder)
