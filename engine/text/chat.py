"""Chat messages to the prompt that a model was trained on, by its own template.

Only the template writes control tokens: the same text in a message stays text.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence

from jinja2 import TemplateError, TemplateSyntaxError

from engine.base.clock import Clock, SystemClock
from engine.base.errors import ClientError, ConfigError
from engine.text.guard import escaped, free_character, strings_in
from engine.text.messages import Message, template_messages
from engine.text.sandbox import TURNS, ChatEnvironment, TemplateRefused, Turns
from engine.text.tokenizer import Tokenizer

MAX_PROMPT_CHARACTERS = 64 * 1024 * 1024
"""A template may write this much; more than any context holds."""
FAULTS = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    MemoryError,
)
"""What a template can raise when it meets messages it was not written for."""

Tools = Sequence[Mapping[str, object]]


class ChatTemplate:
    """One template, compiled once. `source` None: the model has none, and every use says how to give one.

    specials: the variables bos_token, eos_token, ... (Tokenizer.special_texts). Raises ConfigError for a template
    that is not valid Jinja.
    """

    def __init__(self, source: str | None, specials: Mapping[str, str], clock: Clock | None = None) -> None:
        self.source = source
        self.specials = dict(specials)
        environment = ChatEnvironment(clock or SystemClock())
        try:
            self.template = None if source is None else environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ConfigError(f"the chat template is not valid, line {error.lineno}: {error.message}") from None

    def render(
        self,
        messages: Sequence[Message],
        /,
        *,
        tools: Tools | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **template_kwargs: object,
    ) -> str:
        """The prompt as text. continue_final_message: it ends inside the last message, for the model to go on.
        template_kwargs: more variables for the template.

        Raises ClientError with the template's own words where the template refuses the messages, or fails.
        """
        plain = template_messages(messages)
        variables = {"tools": tools or None, **template_kwargs}
        end = free_character(self.texts_of(plain, variables))
        return self.write(plain, variables, add_generation_prompt, end if continue_final_message else None)

    def encode_chat(
        self,
        tokenizer: Tokenizer,
        messages: Sequence[Message],
        /,
        *,
        tools: Tools | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        add_special_tokens: bool = False,
        **template_kwargs: object,
    ) -> array[int]:
        """The prompt as tokens. Control tokens are those that the template writes; in messages, tools and variables
        their text is encoded as text. Where none occurs, this is `encode(render(...), parse_special=True)`.

        Tokens that the model file does not call special (often <think>) are matched in messages too: templates
        and models treat them as words.
        """
        plain = template_messages(messages)
        variables = {"tools": tools or None, **template_kwargs}
        mark = free_character(self.texts_of(plain, variables))
        end = free_character([mark, *self.texts_of(plain, variables)]) if continue_final_message else None
        guard = tokenizer.guard
        marked = [guard.marked_message(message, mark) for message in plain]
        text = self.write(marked, guard.marked_variables(variables, mark), add_generation_prompt, end)
        text = text.replace(escaped(mark), mark)
        return tokenizer.encode_marked(text, mark, add_special_tokens=add_special_tokens)

    def texts_of(self, messages: list[dict[str, object]], variables: Mapping[str, object]) -> Iterator[str]:
        yield self.source or ""
        yield from strings_in(messages)
        yield from strings_in(variables)

    def write(
        self,
        messages: list[dict[str, object]],
        variables: Mapping[str, object],
        add_generation_prompt: bool,
        end: str | None,
    ) -> str:
        """`end`: a character that stands in no text; where given, the prompt is cut at the end of the last message."""
        if self.template is None:
            raise ClientError(
                "this model has no chat template: start the server with --chat-template FILE, or use /v1/completions",
                param="messages",
            )
        if end is not None:
            if add_generation_prompt:
                raise ClientError(
                    "continue_final_message and add_generation_prompt exclude each other: set one of them to false",
                    param="continue_final_message",
                )
            # The space tells whether the template keeps white space at a message's end.
            messages[-1]["content"] = f"{messages[-1]['content']}{end} "
        values = {**self.specials, "documents": None, **variables, TURNS: Turns()}
        text = self.rendered({**values, "messages": messages, "add_generation_prompt": add_generation_prompt})
        return text if end is None else cut_at(text, end)

    def rendered(self, values: Mapping[str, object]) -> str:
        assert self.template is not None
        parts: list[str] = []
        size = 0
        try:
            for part in self.template.generate(values):
                parts.append(part)
                size += len(part)
                if size > MAX_PROMPT_CHARACTERS:
                    raise TemplateError(f"it writes more than {MAX_PROMPT_CHARACTERS} characters")
        except TemplateRefused as refusal:
            raise ClientError(str(refusal), param="messages") from None
        except FAULTS as error:
            raise ClientError(f"the chat template cannot render these messages: {error}", param="messages") from None
        return "".join(parts)


def cut_at(text: str, end: str) -> str:
    """Up to the last `end`; where the template trimmed the message behind it, without white space before it."""
    at = text.rfind(end)
    if at < 0:
        raise ClientError(
            "continue_final_message is set, but this chat template does not show the content of the last message",
            param="continue_final_message",
        )
    return text[:at] if text[at + 1 : at + 2] == " " else text[:at].rstrip()
