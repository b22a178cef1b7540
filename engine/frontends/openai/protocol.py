"""Request bodies of the OpenAI endpoints, with vLLM's extra fields: names and JSON types, nothing else.

Null means absent in every optional field. Unknown fields are ignored, as OpenAI's own clients rely on (`user`,
`store`, `metadata` ...); fields whose effect a caller would miss are declared here and refused in translate.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.json import Decoder

Json = Any  # any JSON value: handed to the template as it is, or only looked at in order to be refused


class StreamOptions(Struct):
    """Only with `stream: true`."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Common(Struct, kw_only=True):
    """What chat and completions share. Meanings and ranges: wire.params.SamplingParams and client/admit."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    allowed_token_ids: list[int] | None = None
    logit_bias: dict[str, float] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    """OpenAI's newer name; wins over max_tokens."""
    min_tokens: int | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    prompt_logprobs: int | None = None
    truncate_prompt_tokens: int | None = None
    """Keep the last so many prompt tokens; -1: as many as the context takes."""
    add_special_tokens: bool | None = None
    priority: int | None = None
    cache_salt: str | None = None
    request_id: str | None = None
    """Becomes `chatcmpl-<it>` or `cmpl-<it>`; left out: the X-Request-Id header's, or a fresh one."""
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    structured_outputs: Json = None
    guided_json: Json = None
    guided_regex: Json = None
    guided_choice: Json = None
    guided_grammar: Json = None
    response_format: Json = None
    kv_transfer_params: Json = None
    use_beam_search: Json = None
    logits_processors: Json = None


class CompletionRequest(Common, kw_only=True):
    """POST /v1/completions."""

    prompt: str | list[str | int | list[int]]
    """A text, texts, token ids, or lists of token ids (at most 1024 prompts)."""
    echo: bool | None = None
    logprobs: int | None = None
    best_of: int | None = None
    suffix: str | None = None
    prompt_embeds: Json = None


class ContentPart(Struct):
    """One part of a message; only text parts are served."""

    type: str
    text: str | None = None


class FunctionCall(Struct):
    """The call that an earlier answer made; `arguments` is JSON in a string."""

    name: str
    arguments: str = ""


class ToolCall(Struct):
    """An entry of an assistant message's `tool_calls`."""

    function: FunctionCall
    id: str | None = None
    type: str = "function"


class Message(Struct):
    """A turn of the conversation. role: system, developer, user, assistant or tool."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None


class ChatRequest(Common, kw_only=True):
    """POST /v1/chat/completions."""

    messages: list[Message]
    logprobs: bool | None = None
    top_logprobs: int | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Json] | None = None
    reasoning_effort: str | None = None
    """Handed to the chat template under the same name."""
    tools: Json = None
    tool_choice: Json = None
    functions: Json = None
    function_call: Json = None
    chat_template: Json = None
    documents: Json = None
    modalities: Json = None
    audio: Json = None
    web_search_options: Json = None


class TokenizeRequest(Struct, kw_only=True):
    """POST /tokenize: either a prompt, or messages as in chat."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_special_tokens: bool | None = None
    """Default: true for a prompt, false for messages, whose template brings its own."""
    return_token_strs: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Json] | None = None
    tools: Json = None
    chat_template: Json = None


class DetokenizeRequest(Struct, kw_only=True):
    """POST /detokenize."""

    tokens: list[int]
    model: str | None = None


chat_decoder = Decoder(ChatRequest)
completion_decoder = Decoder(CompletionRequest)
tokenize_decoder = Decoder(TokenizeRequest)
detokenize_decoder = Decoder(DetokenizeRequest)
