"""How a completion is written: as events, or as one body."""

from __future__ import annotations

from engine.client.logprobs import join_rows, rows
from engine.frontends.openai import sse
from engine.frontends.openai.answers import Answer, finish_reason
from engine.frontends.openai.logprobs import CompletionColumns, CompletionLogprobs, joined
from engine.frontends.openai.output import Output
from engine.frontends.openai.responses import Completion, CompletionChoice
from engine.wire.chunk import Chunk
from engine.wire.output import LogprobRows


class CompletionWriter:
    """Choice i of prompt p has index p * n + i. echoes: the prompts' texts, which open each of their choices."""

    def __init__(self, output: Output, *, has_logprobs: bool, echoes: list[str] | None = None) -> None:
        self.output = output
        self.has_logprobs = has_logprobs
        self.echoes = echoes
        self.columns: dict[int, CompletionColumns] = {}
        self.begun: set[int] = set()
        self.is_plain = not output.shows_ids and not output.usage_in_all
        self.template = self.make_template()

    def index(self, prompt: int, sibling: int) -> int:
        return prompt * self.output.streams[prompt].num_siblings + sibling

    def frames(self, prompt: int, chunk: Chunk) -> bytes:
        self.output.tally.add(chunk)
        index = self.index(prompt, chunk.index)
        if index not in self.begun:
            self.begun.add(index)
            if self.echoes is not None or self.output.shows_ids:
                return self.frame(prompt, index, chunk, is_first=True)
        if self.is_plain and not chunk.finished and chunk.logprobs is None:
            return self.template.fill(index, chunk.text) if chunk.text else b""
        return self.frame(prompt, index, chunk, is_first=False)

    def frame(self, prompt: int, index: int, chunk: Chunk, *, is_first: bool) -> bytes:
        text = (self.echo(prompt) if is_first else "") + (chunk.text or "")
        shown = self.output.ids(chunk.token_ids)
        if not (text or chunk.finished or chunk.logprobs or shown):
            return b""
        choice = CompletionChoice(
            index, text, self.logprobs(prompt, index, chunk.logprobs, is_first=is_first), token_ids=shown
        )
        if is_first:
            choice.prompt_token_ids = self.output.prompt_ids(prompt)
        if chunk.finished:
            choice.finish_reason = finish_reason(chunk)
            choice.stop_reason = chunk.stop_reason
        return sse.event(self.whole([choice]))

    def ending(self) -> bytes:
        if not self.output.wants_usage:
            return sse.DONE
        last = self.whole([])
        last.usage = self.output.tally.usage()
        return sse.event(last) + sse.DONE

    def body(self, choices: dict[tuple[int, int], Answer]) -> bytes:
        tally = self.output.tally
        for answer in choices.values():
            tally.count(answer.token_ids)
        whole = self.whole([self.choice(prompt, sibling, answer) for (prompt, sibling), answer in choices.items()])
        whole.usage = tally.usage()
        return sse.encode(whole)

    def choice(self, prompt: int, sibling: int, answer: Answer) -> CompletionChoice:
        index = self.index(prompt, sibling)
        return CompletionChoice(
            index,
            self.echo(prompt) + "".join(answer.text),
            self.logprobs(prompt, index, join_rows(answer.logprobs), is_first=True),
            answer.finish_reason,
            answer.stop_reason,
            self.output.ids(answer.token_ids),
            self.output.prompt_logprobs(prompt),
            self.output.prompt_ids(prompt),
        )

    def whole(self, choices: list[CompletionChoice]) -> Completion:
        head = self.output.head
        usage = self.output.chunk_usage()
        return Completion(head.id, "text_completion", head.created, head.model, choices, usage)

    def echo(self, prompt: int) -> str:
        return "" if self.echoes is None else self.echoes[prompt]

    def logprobs(
        self, prompt: int, index: int, columns: LogprobRows | None, *, is_first: bool
    ) -> CompletionLogprobs | None:
        """Of the tokens in `columns`; before the first of a choice come the echoed prompt's."""
        if not self.has_logprobs or (columns is None and not (is_first and self.echoes is not None)):
            return None
        writer = self.columns.setdefault(index, CompletionColumns(self.output.style))
        made = CompletionLogprobs()
        if is_first and self.echoes is not None:
            stream = self.output.streams[prompt]
            found = stream.prompt_logprobs
            made = writer.prompt(stream.prompt_token_ids, [] if found is None else rows(found), self.echoes[prompt])
        return joined(made, writer.answer(rows(columns))) if columns is not None else made

    def make_template(self) -> sse.Template:
        before, _, after = sse.encode(self.whole([])).rpartition(b'"choices":[]')
        return sse.Template(
            before + b'"choices":[{"index":',
            b',"text":',
            b',"logprobs":null,"finish_reason":null}]' + after,
        )
