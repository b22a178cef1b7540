"""What one request wants to see besides text, and the token counts so far: shared by both writers."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from engine.client.logprobs import rows
from engine.client.stream import RequestStream
from engine.frontends.openai import logprobs
from engine.frontends.openai.logprobs import LogprobStyle, PromptLogprobs
from engine.frontends.openai.protocol import Common
from engine.frontends.openai.service import Head, Service
from engine.frontends.openai.usage import Tally, Usage


class Output(Struct, frozen=True):
    """One per response. num_alternatives in `style` are the answer's; the prompt's are its own number."""

    head: Head
    streams: Sequence[RequestStream]
    tally: Tally
    style: LogprobStyle
    prompt_alternatives: int | None
    shows_ids: bool
    wants_usage: bool
    usage_in_all: bool

    def chunk_usage(self) -> Usage | UnsetType | None:
        """`usage` of a chunk that is not the last: null where the last will have it, as OpenAI does."""
        if self.usage_in_all:
            return self.tally.usage()
        return None if self.wants_usage else UNSET

    def ids(self, token_ids: array[int]) -> list[int] | UnsetType:
        return token_ids.tolist() if self.shows_ids else UNSET

    def prompt_ids(self, prompt: int) -> list[int] | UnsetType:
        return self.ids(self.streams[prompt].prompt_token_ids)

    def prompt_logprobs(self, prompt: int) -> PromptLogprobs | UnsetType:
        if self.prompt_alternatives is None:
            return UNSET
        columns = self.streams[prompt].prompt_logprobs
        style = self.style.with_alternatives(self.prompt_alternatives)
        return logprobs.prompt([] if columns is None else rows(columns), style)


def output(
    service: Service, fields: Common, head: Head, streams: Sequence[RequestStream], num_alternatives: int
) -> Output:
    """Without a tokenizer there is no text to show, so the ids are shown."""
    options = fields.stream_options
    wants_usage = bool(options and options.include_usage)
    has_tokenizer = service.engine.limits.has_tokenizer
    style = LogprobStyle(
        service.texts,
        num_alternatives,
        as_ids=bool(fields.return_tokens_as_token_ids),
        skips_special=fields.skip_special_tokens is not False,
    )
    return Output(
        head=head,
        streams=streams,
        tally=Tally(streams),
        style=style,
        prompt_alternatives=fields.prompt_logprobs,
        shows_ids=bool(fields.return_token_ids) or not has_tokenizer,
        wants_usage=wants_usage,
        usage_in_all=wants_usage and bool(options and options.continuous_usage_stats),
    )
