"""OpenAI's chat messages into the plain form that chat templates read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from engine.base.errors import ClientError

Message = Mapping[str, object]


def template_messages(messages: Sequence[Message]) -> list[dict[str, object]]:
    """One dict a message, safe to change. Raises ClientError for what no template can read."""
    if not messages:
        raise ClientError("messages is empty: a chat needs at least one message", param="messages")
    return [template_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def template_message(message: Message, place: str) -> dict[str, object]:
    """Absent and null fields are one; content is a text; tool calls carry their arguments as objects."""
    plain = {key: value for key, value in message.items() if value is not None}
    plain["content"] = text_of(message.get("content"), f"{place}.content")
    if reasoning := plain.get("reasoning") or plain.get("reasoning_content"):
        plain["reasoning"] = plain["reasoning_content"] = reasoning
    calls = plain.pop("tool_calls", None)
    if calls:
        plain["tool_calls"] = [
            tool_call(call, f"{place}.tool_calls[{i}]") for i, call in enumerate(listed(calls, place))
        ]
    return plain


def text_of(content: object, place: str) -> str:
    """Parts are joined by line breaks, as vLLM and llama.cpp do; no content is an empty text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        raise ClientError(f"{place} must be a string or a list of parts", param=place)
    return "\n".join(part_text(part, f"{place}[{index}]") for index, part in enumerate(content))


def part_text(part: object, place: str) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise ClientError(f"{place} must be an object with a `type`", param=place)
    kind, text = part.get("type"), part.get("text")
    if kind != "text":
        raise ClientError(f"{place}: parts of type {kind!r} are unsupported, this model reads text only", param=place)
    if not isinstance(text, str):
        raise ClientError(f"{place}.text must be a string", param=place)
    return text


def listed(calls: object, place: str) -> Sequence[object]:
    if not isinstance(calls, list | tuple):
        raise ClientError(f"{place}.tool_calls must be a list", param=place)
    return calls


def tool_call(call: object, place: str) -> dict[str, object]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise ClientError(f"{place} must be an object with a `function`", param=place)
    arguments = function.get("arguments")
    parsed = parse_arguments(arguments, place) if isinstance(arguments, str) else arguments or {}
    return {**call, "function": {**function, "arguments": parsed}}


def parse_arguments(arguments: str, place: str) -> object:
    """The API carries arguments as JSON in a string, templates want the object; an empty string is no arguments."""
    if not arguments.strip():
        return {}
    try:
        parsed = json.loads(arguments)
    except ValueError as error:
        raise ClientError(f"{place}.function.arguments is not valid JSON: {error}", param=place) from None
    if not isinstance(parsed, dict):
        raise ClientError(f"{place}.function.arguments must be a JSON object", param=place)
    return parsed
