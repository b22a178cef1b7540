"""What a frontend may do with text beside generating: tokens, texts, chat prompts.

Everything is pure and may run in any thread. Knows no request.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from engine.base.errors import ClientError
from engine.client.admit import Admission
from engine.client.check_params import check_ids, is_unicode
from engine.text.chat import ChatTemplate
from engine.text.guard import strings_in
from engine.text.tokenizer import Tokenizer

Message = Mapping[str, object]
Tools = Sequence[Mapping[str, object]]
RESERVED = frozenset(
    ("self", "tokenizer", "messages", "tools", "add_generation_prompt", "continue_final_message", "add_special_tokens")
)
"""Template variables that have a field of their own."""
CHARS_PER_MESSAGE = 64
"""What the template writes around a message, roughly."""


class Conversation(Struct, frozen=True):
    """Messages that are about to become tokens."""

    chat: ChatTemplate
    tokenizer: Tokenizer
    messages: Sequence[Message]
    tools: Tools | None
    add_generation_prompt: bool
    continue_final_message: bool
    template_kwargs: Mapping[str, Any]  # Any: whatever the template reads

    @property
    def num_chars(self) -> int:
        """About how long the prompt will be."""
        texts = strings_in([self.messages, self.tools or (), self.template_kwargs])
        return len(self.messages) * CHARS_PER_MESSAGE + sum(map(len, texts))

    def encode(self) -> array[int]:
        """Raises ClientError where the template refuses the messages."""
        return self.chat.encode_chat(
            self.tokenizer,
            self.messages,
            tools=self.tools,
            add_generation_prompt=self.add_generation_prompt,
            continue_final_message=self.continue_final_message,
            **self.template_kwargs,
        )


class TextSide:
    """The tokenizer and the chat template, or clear words where the server has none."""

    def __init__(self, admission: Admission, chat: ChatTemplate | None) -> None:
        self.admission = admission
        self.chat = chat

    @property
    def tokenizer(self) -> Tokenizer:
        if self.admission.tokenizer is None:
            raise ClientError("this server has no tokenizer: use token ids")
        return self.admission.tokenizer

    def encode(self, text: str, *, add_special_tokens: bool = True) -> array[int]:
        if not is_unicode(text):
            raise ClientError("the text must be valid Unicode", param="prompt")
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens)

    def decode(self, token_ids: array[int] | Sequence[int], *, skip_special_tokens: bool) -> str:
        check_ids("tokens", token_ids, self.admission.limits.vocab_size)
        return self.tokenizer.decode(array("i", token_ids), skip_special_tokens=skip_special_tokens)

    def token_bytes(self, token_id: int) -> bytes:
        tokenizer = self.tokenizer
        if token_id in tokenizer.special_ids:
            return tokenizer.token_text(token_id).encode()
        return tokenizer.token_bytes(token_id)

    def conversation(
        self,
        messages: Sequence[Message],
        *,
        tools: Tools | None,
        add_generation_prompt: bool,
        continue_final_message: bool,
        template_kwargs: Mapping[str, object] | None,
    ) -> Conversation:
        if self.chat is None:
            raise ClientError("this model has no chat template: send a prompt instead", param="messages")
        if template_kwargs and RESERVED & template_kwargs.keys():
            names = ", ".join(sorted(RESERVED & template_kwargs.keys()))
            raise ClientError(f"chat_template_kwargs must not hold {names}", param="chat_template_kwargs")
        tokenizer = self.tokenizer
        self.admission.check_text_length(sum(map(len, strings_in(messages))))
        return Conversation(
            self.chat,
            tokenizer,
            messages,
            tools,
            add_generation_prompt,
            continue_final_message,
            template_kwargs or {},
        )
