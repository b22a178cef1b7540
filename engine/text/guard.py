"""Keeps a chat's own words from becoming control tokens: marks them before the template runs.

A mark is one character that occurs in no text of the request; it is taken out again before encoding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

PRIVATE_USE = range(0xE000, 0xF900)


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
        self.inside = re.compile("|".join(f"{re.escape(text[0])}(?={re.escape(text[1:])})" for text in texts) or "(?!)")
        self.beginnings = tuple({text[:cut] for text in texts for cut in range(1, len(text))})
        self.endings = tuple({text[cut:] for text in texts for cut in range(1, len(text))})

    def marked(self, value: object, mark: str) -> object:
        """Every string in a JSON value with its marks, keys too. Strings that need none stay the same objects."""
        if isinstance(value, str):
            return self.marked_text(value, mark)
        if isinstance(value, Mapping):
            return {self.marked(key, mark): self.marked(item, mark) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.marked(item, mark) for item in value]
        return value

    def marked_text(self, text: str, mark: str) -> str:
        text = self.inside.sub(lambda match: match.group() + mark, text)
        # Templates trim: what counts is the text without the white space around it.
        core = text.strip()
        ends, starts = core.endswith(self.beginnings), core.startswith(self.endings)
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
