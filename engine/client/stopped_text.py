"""Text that stop strings may end, with the tokens and log probabilities that belong to it.

Scanned as the tokens come. A token leaves with the first character that it, or the one after it, adds to the text:
text that is held back holds its tokens back too, and a match cuts text, tokens and log probabilities at one place.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import NamedTuple

from engine.client.admit import TextRules
from engine.client.logprobs import join_rows, slice_rows
from engine.text.detokenizer import Detokenizer
from engine.text.stops import StopScanner
from engine.wire.output import LogprobRows


class Released(NamedTuple):
    """What may leave now, and the stop string that ended the text, where one did."""

    token_ids: array[int]
    text: str
    logprobs: LogprobRows | None
    matched: str | None = None


class Waiting(NamedTuple):
    """A token whose text has not left: where in the text it begins, and its row."""

    token_id: int
    start: int
    logprobs: LogprobRows | None


class StoppedText:
    """One sibling's. Nothing may be pushed after a match or after `ends`."""

    def __init__(self, rules: TextRules, detokenizer: Detokenizer) -> None:
        self.rules = rules
        self.detokenizer = detokenizer
        self.scanner = StopScanner(rules.stop, rules.include_stop)
        self.waiting: deque[Waiting] = deque()
        self.num_tokens = 0
        self.decoded = 0
        """Characters decoded so far; `sent` of them have left."""
        self.sent = 0

    def push(self, tokens: array[int], logprobs: LogprobRows | None, end: str | None, ends: bool) -> Released:
        """tokens: what came, in order. end: the last token ended the answer, and this is its text, often "".

        ends: nothing will follow, so what is held back leaves too.
        """
        if len(tokens) == 1 and end is None and not ends and not self.waiting:
            return self.push_one(tokens, logprobs)
        parts: list[str] = []
        last = len(tokens) - 1
        for place, token in enumerate(tokens):
            row = None if logprobs is None else slice_rows(logprobs, place, place + 1)
            self.waiting.append(Waiting(token, self.decoded, row))
            self.num_tokens += 1
            if end is not None and place == last:
                piece = self.detokenizer.flush() + end
            else:
                piece = self.detokenizer.push(array("i", (token,)))
            if matched := self.add(piece, parts):
                return self.release("".join(parts), matched)
        if not ends:
            return self.release("".join(parts))
        if matched := self.add(self.detokenizer.flush(), parts):
            return self.release("".join(parts), matched)
        parts.append(self.scanner.flush().text)
        return self.release_all("".join(parts))

    def push_one(self, tokens: array[int], logprobs: LogprobRows | None) -> Released:
        """A decode step with nothing held back before it: the common case, in a third of the time."""
        parts: list[str] = []
        start = self.decoded
        self.num_tokens += 1
        matched = self.add(self.detokenizer.push(tokens), parts)
        text = parts[0]
        self.sent += len(text)
        if start < self.sent:
            return Released(tokens, text, logprobs, matched)
        if matched is None:
            self.waiting.append(Waiting(tokens[0], start, logprobs))
        return Released(array("i"), text, None, matched)

    def add(self, piece: str, parts: list[str]) -> str | None:
        """Appends the text that may leave to `parts`; the stop string that the piece completed, if it did."""
        self.decoded += len(piece)
        if self.num_tokens <= self.rules.min_tokens:
            parts.append(piece)
            return None
        found = self.scanner.push(piece)
        parts.append(found.text)
        return found.matched

    def release(self, text: str, matched: str | None = None) -> Released:
        self.sent += len(text)
        return self.let_go(text, sum(token.start < self.sent for token in self.waiting), matched)

    def release_all(self, text: str) -> Released:
        return self.let_go(text, len(self.waiting), None)

    def let_go(self, text: str, count: int, matched: str | None) -> Released:
        gone = [self.waiting.popleft() for _ in range(count)]
        rows = [token.logprobs for token in gone if token.logprobs is not None]
        return Released(array("i", [token.token_id for token in gone]), text, join_rows(rows), matched)
