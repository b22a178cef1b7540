"""Stop strings in a stream of text: what may be shown, and when to stop.

Knows no tokens but in `stop_ids`, for stop strings that name a token which the text never shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct


class StopResult(Struct, frozen=True, gc=False):
    """Text to send now, and the stop string that ended the stream, if one did. Made for every piece of text, so it
    is a Struct: a sixth of what a named tuple costs."""

    text: str
    matched: str | None = None


class NamesTokens(Protocol):
    """What `stop_ids` needs of a tokenizer."""

    @property
    def special_ids(self) -> frozenset[int]: ...

    def id_of(self, text: str) -> int | None: ...


def stop_ids(tokenizer: NamesTokens, stops: Iterable[str]) -> dict[int, str]:
    """Token id -> stop string, for each stop string that is a special token's text.

    Such a token is hidden from the text, or comes as one piece; ending at its id is the same and cannot be missed.
    """
    found = ((tokenizer.id_of(stop), stop) for stop in stops)
    return {token: stop for token, stop in found if token is not None and token in tokenizer.special_ids}


class StopScanner:
    """Finds the stop string that is complete first; of several that end together, the longest.

    So the answer does not depend on how the text was cut into pieces. Held back is the longest end of the text that
    begins some stop string, and nothing at all where the stop string is shown (`include`). A push costs its own
    length, however much came before (Aho and Corasick, 1975). Stop strings are not empty; there may be none.
    """

    __slots__ = ("depth", "fallback", "first", "follow", "held", "include", "is_over", "match", "node")

    def __init__(self, stops: tuple[str, ...], include: bool = False) -> None:
        assert all(stops), "an empty stop string is refused on admission"
        self.include = include
        self.held = ""
        self.is_over = False
        self.node = 0
        self.first = re.compile(
            "[" + "".join(sorted({re.escape(stop[0]) for stop in stops})) + "]" if stops else r"[^\s\S]"
        )
        self.plant(stops)
        self.link()

    def push(self, text: str) -> StopResult:
        """Text that is certain to precede any stop string, up to the first one that is complete. Nothing after it."""
        if self.is_over:
            return StopResult("")
        if not self.node and self.first.search(text) is None:  # nothing begun, nothing begins: nearly always
            return StopResult(text)
        return self.scan(text)

    def flush(self) -> StopResult:
        """The stream ended otherwise: what was held back is text after all."""
        held, self.held, self.is_over = self.held, "", True
        return StopResult(held)

    def scan(self, text: str) -> StopResult:
        at, end = 0, len(text)
        while at < end:
            if not self.node:
                begin = self.first.search(text, at)
                if begin is None:
                    break
                at = begin.start()
            self.step(text[at])
            at += 1
            if (stop := self.match[self.node]) is not None:
                return self.finish(text[:at], stop)
        return self.emit(text)

    def emit(self, text: str) -> StopResult:
        if self.include:
            return StopResult(text)
        seen = self.held + text
        cut = len(seen) - self.depth[self.node]
        self.held = seen[cut:]
        return StopResult(seen[:cut])

    def finish(self, text: str, stop: str) -> StopResult:
        self.is_over = True
        if self.include:
            return StopResult(text, stop)
        seen = self.held + text
        self.held = ""
        return StopResult(seen[: len(seen) - len(stop)], stop)

    def step(self, character: str) -> None:
        """Node of the longest end of the text that begins a stop string, after one more character."""
        node = self.node
        while node and character not in self.follow[node]:
            node = self.fallback[node]
        self.node = self.follow[node].get(character, 0)

    def plant(self, stops: tuple[str, ...]) -> None:
        """The stop strings as a tree: node 0 is its root, a node is a beginning of some stop string."""
        self.follow: list[dict[str, int]] = [{}]
        self.depth = [0]
        self.match: list[str | None] = [None]
        for stop in stops:
            node = 0
            for depth, character in enumerate(stop, 1):
                if character not in self.follow[node]:
                    self.follow[node][character] = len(self.follow)
                    self.follow.append({})
                    self.depth.append(depth)
                    self.match.append(None)
                node = self.follow[node][character]
            self.match[node] = stop

    def link(self) -> None:
        """From each node to its longest proper end that is a node too; a stop string that ends there ends here."""
        self.fallback = [0] * len(self.follow)
        queue = list(self.follow[0].values())
        for node in queue:
            for character, child in self.follow[node].items():
                self.node = self.fallback[node]
                self.step(character)
                self.fallback[child] = self.node
                if self.match[child] is None:
                    self.match[child] = self.match[self.node]
                queue.append(child)
        self.node = 0
