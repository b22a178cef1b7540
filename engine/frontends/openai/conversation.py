"""From messages to the prompt's tokens: what a chat template is given, and what of a message is served.

Shared by chat and /tokenize, so that both count the same tokens. Knows no template and no sampling.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from engine.base.errors import ClientError
from engine.client.async_engine import AsyncEngine
from engine.frontends.openai.protocol import ContentPart, Json, Message

ROLES = ("system", "developer", "user", "assistant", "tool")


class Conversation(Struct):
    """The fields of a body that decide how its messages become tokens; None is left out."""

    messages: list[Message]
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    add_special_tokens: bool | None = None
    template_kwargs: Mapping[str, Json] | None = None


async def encode_conversation(engine: AsyncEngine, conversation: Conversation) -> array[int]:
    """Raises ClientError (param `messages`, or the field that contradicts another)."""
    continues = bool(conversation.continue_final_message)
    opens = not continues if conversation.add_generation_prompt is None else conversation.add_generation_prompt
    if continues and opens:
        raise ClientError(
            "`continue_final_message` and `add_generation_prompt` exclude each other.", param="continue_final_message"
        )
    if not conversation.messages:
        raise ClientError("`messages` is empty.", param="messages")
    tokens = await engine.encode_chat(
        [turn(message, f"messages[{place}]") for place, message in enumerate(conversation.messages)],
        add_generation_prompt=opens,
        continue_final_message=continues,
        template_kwargs=conversation.template_kwargs,
    )
    # A template writes its own special tokens; the tokenizer's come on top only where the client insists.
    return engine.encode("", add_special_tokens=True) + tokens if conversation.add_special_tokens else tokens


def turn(message: Message, where: str) -> dict[str, Json]:
    """A message as a mapping; its content stays as it came, the chat template's room makes text of it."""
    if message.role not in ROLES:
        raise ClientError(f"The role of `{where}` is none of: {', '.join(ROLES)}.", param=f"{where}.role")
    if message.content is None and message.role != "assistant":
        raise ClientError(f"`{where}.content` is required.", param=f"{where}.content")
    if isinstance(message.content, list):
        check_parts(message.content, f"{where}.content")
    made: dict[str, Json] = msgspec.to_builtins(message)
    return made


def check_parts(parts: list[ContentPart], where: str) -> None:
    for place, part in enumerate(parts):
        if part.type != "text":
            message = f"`{where}[{place}]`: only parts of type `text` are supported."
            raise ClientError(message, param=where, code="unsupported_value")
        if part.text is None:
            raise ClientError(f"`{where}[{place}].text` is required.", param=where)
