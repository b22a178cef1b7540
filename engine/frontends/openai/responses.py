"""Bodies of the answers, whole and streamed, in OpenAI's shapes with vLLM's additions.

A field that is UNSET does not appear; a field that is None appears as null.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from engine.frontends.openai.logprobs import ChatLogprobs, CompletionLogprobs, PromptLogprobs
from engine.frontends.openai.usage import Usage

StopReason = int | str | None | UnsetType
TokenIds = list[int] | UnsetType


class ChatDelta(Struct):
    """What a chunk adds to a message."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET


class ChatChunkChoice(Struct):
    """One choice in a chunk; finish_reason is null until the last."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: StopReason = UNSET
    token_ids: TokenIds = UNSET


class ChatChunk(Struct):
    """`data:` of a streamed chat answer. usage: null until the last chunk where it was asked for, else absent."""

    id: str
    object: str
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    prompt_token_ids: TokenIds = UNSET


class ChatMessage(Struct):
    """The answer."""

    role: str
    content: str


class ChatChoice(Struct):
    """One choice of a whole chat answer."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: str
    stop_reason: int | str | None
    token_ids: TokenIds = UNSET


class ChatCompletion(Struct):
    """The body of a whole chat answer."""

    id: str
    object: str
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET
    prompt_token_ids: TokenIds = UNSET


class CompletionChoice(Struct):
    """One choice of a completion, whole or in a chunk; finish_reason is null until the last chunk."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: StopReason = UNSET
    token_ids: TokenIds = UNSET
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET
    prompt_token_ids: TokenIds = UNSET


class Completion(Struct):
    """The body of a completion, and `data:` of its chunks."""

    id: str
    object: str
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET
