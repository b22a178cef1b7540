"""Token counts of an answer: one place for every endpoint, streamed or not."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from msgspec import Struct

from engine.client.stream import RequestStream
from engine.wire.chunk import Chunk


class PromptTokensDetails(Struct):
    """cached_tokens: prompt tokens that were found in the prefix cache."""

    cached_tokens: int


class Usage(Struct):
    """OpenAI's usage object. A prompt counts once, however many choices answer it."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptTokensDetails


class Tally:
    """Counts what was delivered of one response: its streams are one a prompt, its chunks come from any of them."""

    __slots__ = ("completion_tokens", "prompt_tokens", "streams")

    def __init__(self, streams: Sequence[RequestStream]) -> None:
        self.streams = streams
        self.prompt_tokens = sum(len(stream.prompt_token_ids) for stream in streams)
        self.completion_tokens = 0

    def add(self, chunk: Chunk) -> None:
        self.count(chunk.token_ids)

    def count(self, token_ids: array[int]) -> None:
        self.completion_tokens += len(token_ids)

    def usage(self) -> Usage:
        cached = sum(stream.num_cached_tokens for stream in self.streams)
        return Usage(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            total_tokens=self.prompt_tokens + self.completion_tokens,
            prompt_tokens_details=PromptTokensDetails(cached),
        )
