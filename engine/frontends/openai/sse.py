"""Server-sent events: the bytes of one event, and a text field spliced into a prepared frame.

Owns the escaping that keeps an event on one line for every reader. Knows no endpoint.
Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from msgspec.json import Encoder

HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # nginx buffers answers otherwise, and every token would come at the end.
    (b"x-accel-buffering", b"no"),
)
DONE = b"data: [DONE]\n\n"

encode = Encoder().encode


def escaped(json: bytes) -> bytes:
    """JSON whose strings hold no line end that some readers split on: NEL, LS and PS (str.splitlines, old JavaScript).

    The control characters below U+0020 are escaped by JSON itself. UTF-8 makes the search safe: no character's bytes
    occur inside another's.
    """
    if json.isascii():
        return json
    return (
        json.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029").replace(b"\xc2\x85", b"\\u0085")
    )


def event(payload: object) -> bytes:
    """Any JSON-encodable value as one `data:` event."""
    return b"data: " + escaped(encode(payload)) + b"\n\n"


class Template:
    """A frame whose events differ in one small number and one text only: the rest is encoded once per request.

    head: the JSON up to the number. middle: between number and text. tail: after the text.
    """

    __slots__ = ("head", "middle", "openings", "tail")

    def __init__(self, head: bytes, middle: bytes, tail: bytes) -> None:
        self.head = b"data: " + escaped(head)
        self.middle = middle
        self.tail = tail + b"\n\n"
        self.openings: dict[int, bytes] = {}

    def fill(self, number: int, text: str) -> bytes:
        json = encode(text)
        opening = self.openings.get(number) or self.open(number)
        return opening + (json if json.isascii() else escaped(json)) + self.tail

    def open(self, number: int) -> bytes:
        opening = self.openings[number] = b"%b%d%b" % (self.head, number, self.middle)
        return opening
