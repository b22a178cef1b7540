"""Keeps a chat's own words from becoming control tokens: marks them before the template runs.

A mark is one character that occurs in no text of the request; it is taken out again before encoding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

PRIVATE_USE = range(0xE000, 0xF900)
FREE_TEXT = frozenset(["content", "reasoning", "reasoning_content", "arguments"])
"""Fields of a message whose text no template compares with anything."""


def free_character(texts: Iterable[str]) -> str:
    """A private-use character that stands in none of the texts, neither itself nor as a JSON escape."""
    joined = "\0".join(texts)
    for code in PRIVATE_USE:
        if chr(code) not in joined and escaped(chr(code)) not in joined:
            return chr(code)
    # All 6,400 of them: the text is not language. One of its characters is lost rather than a control token won.
    return chr(PRIVATE_USE[0])


def escaped(mark: str) -> str:
    """What becomes of a mark in a template that writes ASCII JSON."""
    return json.dumps(mark)[1:-1]


class Guard:
    """Marks every place of a text where a control token stands, or could be completed by what is put beside it."""

    def __init__(self, control_texts: Iterable[str]) -> None:
        # A token of one character has no inside to mark, and nothing can complete it.
        texts = sorted((text for text in control_texts if len(text) > 1), key=len, reverse=True)
        inside = (f"{re.escape(text[0])}(?={re.escape(text[1:])})" for text in texts)
        self.inside = re.compile("|".join(inside) or "(?!)")
        self.beginnings = tuple({text[:cut] for text in texts for cut in range(1, len(text))})
        self.endings = tuple({text[cut:] for text in texts for cut in range(1, len(text))})
        self.middles = "\0".join(text[1:-1] for text in texts)

    def marked_message(self, message: Mapping[str, object], mark: str) -> dict[str, object]:
        """A chat message, of which FREE_TEXT says what is nothing but text."""
        return self.marked_object(message, mark, False, FREE_TEXT)

    def marked_variables(self, variables: Mapping[str, object], mark: str) -> dict[str, object]:
        """All else that a request gives a template."""
        return self.marked_object(variables, mark, False, frozenset())

    def marked_object(
        self, value: Mapping[str, object], mark: str, is_free: bool, free: frozenset[str]
    ) -> dict[str, object]:
        return {
            self.marked_text(key, mark, is_free): self.marked(item, mark, is_free or key in free, free)
            for key, item in value.items()
        }

    def marked(self, value: object, mark: str, is_free: bool, free: frozenset[str]) -> object:
        """Every string in a JSON value with its marks, keys too."""
        if isinstance(value, str):
            return self.marked_text(value, mark, is_free)
        if isinstance(value, Mapping):
            return self.marked_object(value, mark, is_free, free)
        if isinstance(value, list | tuple):
            return [self.marked(item, mark, is_free, free) for item in value]
        return value

    def marked_text(self, text: str, mark: str, is_free: bool) -> str:
        """is_free: it is not meant as the middle of a control token whose ends the template writes, as a role may be;
        nor do templates compare it with anything, as they do with types."""
        text = self.inside.sub(lambda match: match.group() + mark, text)
        # Templates trim: what counts is the text without the white space around it.
        core = text.strip()
        starts = core.startswith(self.endings) or (is_free and core != "" and core in self.middles)
        ends = core.endswith(self.beginnings)
        if not (ends or starts):
            return text
        left = text[: len(text) - len(text.lstrip())]
        right = text[len(text.rstrip()) :]
        return left + (mark if starts else "") + core + (mark if ends else "") + right


def strings_in(value: object) -> Iterator[str]:
    """Every string in a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from strings_in(key)
            yield from strings_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings_in(item)
