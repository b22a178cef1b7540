"""Log probabilities in OpenAI's two shapes and in vLLM's shape for prompts.

Every number is finite: -inf is -9999.0. One entry per token, whatever chunks the tokens came in.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence

from msgspec import Struct

from engine.client.logprobs import TokenLogprob, TokenRow, finite
from engine.frontends.openai.token_texts import TokenTexts


class TopLogprob(Struct):
    """An alternative in a chat answer. bytes: UTF-8, also of pieces of characters; null without a tokenizer."""

    token: str
    logprob: float
    bytes: list[int] | None


class ChatLogprob(Struct):
    """One token of a chat answer and its alternatives."""

    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[TopLogprob]


class ChatLogprobs(Struct):
    """`logprobs` of a chat choice."""

    content: list[ChatLogprob]


class CompletionLogprobs(Struct):
    """`logprobs` of a completion choice: columns, one entry per token. text_offset: characters into `text`."""

    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] = []
    text_offset: list[int] = []


class PromptLogprob(Struct):
    """One alternative of a prompt token. rank: 1 is the most likely of the vocabulary."""

    logprob: float
    rank: int
    decoded_token: str


PromptLogprobs = list[dict[str, PromptLogprob] | None]


class LogprobStyle(Struct):
    """How one request wants its logprobs: the number of alternatives (-1: all there are), and tokens as ids."""

    texts: TokenTexts
    alternatives: int
    as_ids: bool = False
    skips_special: bool = True

    def with_alternatives(self, alternatives: int) -> LogprobStyle:
        return LogprobStyle(self.texts, alternatives, self.as_ids, self.skips_special)

    def best(self, row: TokenRow) -> tuple[TokenLogprob, ...]:
        return row.alternatives if self.alternatives < 0 else row.alternatives[: self.alternatives]

    def name(self, token_id: int) -> str:
        return self.texts.of(token_id, as_id=self.as_ids).name


def chat(rows: Iterable[TokenRow], style: LogprobStyle) -> ChatLogprobs:
    def entry(logprob: TokenLogprob) -> TopLogprob:
        text = style.texts.of(logprob.token_id, as_id=style.as_ids)
        return TopLogprob(text.name, finite(logprob.logprob), None if text.raw is None else list(text.raw))

    content = []
    for row in rows:
        own = entry(row.chosen)
        content.append(ChatLogprob(own.token, own.logprob, own.bytes, [entry(one) for one in style.best(row)]))
    return ChatLogprobs(content)


class CompletionColumns:
    """The columns of one completion choice as its tokens come; knows how far into the text they have got."""

    def __init__(self, style: LogprobStyle) -> None:
        self.style = style
        self.offset = 0
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def prompt(self, token_ids: Sequence[int], rows: Iterable[TokenRow], echoed: str) -> CompletionLogprobs:
        """The echoed prompt: its first token has no probability. A token that the text lacks (BOS) has no width."""
        columns = CompletionLogprobs()
        found = iter(rows)
        for position, token_id in enumerate(token_ids):
            self.append(columns, token_id, next(found, None) if position else None)
            piece = self.decode(token_id)
            self.offset += len(piece) if echoed.startswith(piece, self.offset) else 0
        return columns

    def answer(self, rows: Iterable[TokenRow]) -> CompletionLogprobs:
        columns = CompletionLogprobs()
        for row in rows:
            token_id = row.chosen.token_id
            self.append(columns, token_id, row)
            if not (self.style.skips_special and self.style.texts.of(token_id).is_hidden):
                self.offset += len(self.decode(token_id))
        return columns

    def append(self, columns: CompletionLogprobs, token_id: int, row: TokenRow | None) -> None:
        columns.tokens.append(self.style.name(token_id))
        columns.token_logprobs.append(None if row is None else finite(row.chosen.logprob))
        columns.top_logprobs.append(None if row is None else self.top(row))
        columns.text_offset.append(self.offset)

    def top(self, row: TokenRow) -> dict[str, float]:
        """Up to k + 1 entries: the k best, and the token itself where it is not among them. None asked for: empty."""
        if self.style.alternatives == 0:
            return {}
        best: dict[str, float] = {}
        for one in (*self.style.best(row), row.chosen):
            best.setdefault(self.style.name(one.token_id), finite(one.logprob))
        return best

    def decode(self, token_id: int) -> str:
        return self.decoder.decode(self.style.texts.of(token_id).raw or b"")


def joined(first: CompletionLogprobs, second: CompletionLogprobs) -> CompletionLogprobs:
    return CompletionLogprobs(
        first.tokens + second.tokens,
        first.token_logprobs + second.token_logprobs,
        first.top_logprobs + second.top_logprobs,
        first.text_offset + second.text_offset,
    )


def prompt(rows: Iterable[TokenRow], style: LogprobStyle) -> PromptLogprobs:
    """vLLM's `prompt_logprobs`: null for the first token, then {token id: entry} per token."""
    entries: PromptLogprobs = [None]
    for row in rows:
        entries.append(
            {
                str(one.token_id): PromptLogprob(finite(one.logprob), one.rank, style.name(one.token_id))
                for one in (*style.best(row), row.chosen)
            }
        )
    return entries
