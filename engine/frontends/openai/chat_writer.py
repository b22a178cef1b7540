"""How a chat answer is written: as events, or as one body."""

from __future__ import annotations

from msgspec import UNSET

from engine.client.logprobs import join_rows, rows
from engine.frontends.openai import logprobs, sse
from engine.frontends.openai.answers import Answer, finish_reason
from engine.frontends.openai.logprobs import ChatLogprobs
from engine.frontends.openai.output import Output
from engine.frontends.openai.responses import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    ChatMessage,
)
from engine.wire.chunk import Chunk
from engine.wire.output import LogprobRows

ROLE = "assistant"


class ChatWriter:
    """Per choice: one event with the role, deltas, one event with the finish reason; then usage if asked; [DONE]."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.begun: set[int] = set()
        # A chunk of plain text and nothing else; every chunk is one when these hold.
        self.is_plain = not output.shows_ids and not output.usage_in_all
        self.template = self.make_template()

    def frames(self, _prompt: int, chunk: Chunk) -> bytes:
        self.output.tally.add(chunk)
        opening = b"" if chunk.index in self.begun else self.begin(chunk.index)
        if self.is_plain and not chunk.finished and chunk.logprobs is None:
            return opening + self.template.fill(chunk.index, chunk.text) if chunk.text else opening
        return opening + self.frame(chunk)

    def begin(self, index: int) -> bytes:
        is_first = not self.begun
        self.begun.add(index)
        frame = self.chunk([ChatChunkChoice(index, ChatDelta(ROLE, ""))])
        if is_first:
            frame.prompt_token_ids = self.output.prompt_ids(0)
        return sse.event(frame)

    def frame(self, chunk: Chunk) -> bytes:
        shown = self.output.ids(chunk.token_ids)
        if not (chunk.text or chunk.finished or chunk.logprobs or shown):
            return b""
        choice = ChatChunkChoice(
            chunk.index, ChatDelta(content=chunk.text or UNSET), self.logprobs(chunk.logprobs), token_ids=shown
        )
        if chunk.finished:
            choice.finish_reason = finish_reason(chunk)
            choice.stop_reason = chunk.stop_reason
        return sse.event(self.chunk([choice]))

    def ending(self) -> bytes:
        if not self.output.wants_usage:
            return sse.DONE
        last = self.chunk([])
        last.usage = self.output.tally.usage()
        return sse.event(last) + sse.DONE

    def body(self, choices: dict[tuple[int, int], Answer]) -> bytes:
        tally = self.output.tally
        for answer in choices.values():
            tally.count(answer.token_ids)
        head = self.output.head
        whole = ChatCompletion(
            head.id,
            "chat.completion",
            head.created,
            head.model,
            [self.choice(index, answer) for (_, index), answer in choices.items()],
            tally.usage(),
            prompt_logprobs=self.output.prompt_logprobs(0),
            prompt_token_ids=self.output.prompt_ids(0),
        )
        return sse.encode(whole)

    def choice(self, index: int, answer: Answer) -> ChatChoice:
        return ChatChoice(
            index,
            ChatMessage(ROLE, "".join(answer.text)),
            self.logprobs(join_rows(answer.logprobs)),
            answer.finish_reason,
            answer.stop_reason,
            self.output.ids(answer.token_ids),
        )

    def chunk(self, choices: list[ChatChunkChoice]) -> ChatChunk:
        head = self.output.head
        usage = self.output.chunk_usage()
        return ChatChunk(head.id, "chat.completion.chunk", head.created, head.model, choices, usage)

    def logprobs(self, columns: LogprobRows | None) -> ChatLogprobs | None:
        return None if columns is None else logprobs.chat(rows(columns), self.output.style)

    def make_template(self) -> sse.Template:
        """Splits the encoded plain frame at its choice; the parts join to what `frame` writes (a test says so)."""
        before, _, after = sse.encode(self.chunk([])).rpartition(b'"choices":[]')
        return sse.Template(
            before + b'"choices":[{"index":',
            b',"delta":{"content":',
            b'},"logprobs":null,"finish_reason":null}]' + after,
        )
