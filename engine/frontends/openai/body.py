"""From the bytes of a request body to a typed struct, or to a 4xx that quotes none of them.

Owns size, time, media type, UTF-8, JSON syntax and field types. Ranges of values are client/admit's.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import NoReturn, TypeVar

import msgspec
from msgspec import Struct
from msgspec.json import Decoder
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Receive

from engine.base.config import FrontendConfig
from engine.base.errors import ClientError

Fields = TypeVar("Fields", bound=Struct)

# A body over the limit is read on (and thrown away) this far and this long, so that a client which sends first and
# reads later sees the 413 instead of a broken pipe.
DISCARD_FACTOR = 4
DISCARD_TIMEOUT_S = 1.0
# Parsing time is bounded by what a body holds, not only by its bytes: 4 million one-letter strings fit into 16 MB.
MAX_STRINGS = 100_000


class BodyTooLarge(ClientError):
    """The body exceeds max_body_bytes."""

    status = 413


class BodyTooSlow(ClientError):
    """The body did not come within body_timeout_s."""

    status = 408


class UnsupportedCoding(ClientError):
    """The body is compressed; this server decodes none (RFC 9110, section 15.5.16)."""

    status = 415


async def read_json(request: Request, decoder: Decoder[Fields], config: FrontendConfig) -> Fields:
    """Raises ClientError: 400 for form and syntax, 408, 413, 415."""
    check_headers(request.headers)
    return decode(await read_body(request, config), decoder)


def check_headers(headers: Headers) -> None:
    """A body is JSON in UTF-8, plain. A missing content type passes: there is one format only.

    Other types are refused so that a web page cannot post to us without a CORS preflight.
    """
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedCoding("Send the body without content-encoding.")
    media_type, _, parameters = headers.get("content-type", "application/json").lower().partition(";")
    media_type = media_type.strip()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise ClientError("Send the body with `Content-Type: application/json`.")
    charset = re.search(r'charset\s*=\s*"?([^\s";]+)', parameters)
    if charset and charset[1] not in ("utf-8", "utf8", "us-ascii"):
        raise ClientError("The body must be UTF-8; its Content-Type names another charset.")


async def read_body(request: Request, config: FrontendConfig) -> bytes:
    """The whole body. Never holds more than max_body_bytes and one network read."""
    limit = config.max_body_bytes
    declared = declared_length(request.headers)
    if declared is not None and declared > limit:
        # A client that waits for "100 Continue" has sent nothing, and receive() would ask it to.
        if "expect" not in request.headers:
            await discard(request.receive, declared, limit)
        raise too_large(limit)
    try:
        async with asyncio.timeout(config.body_timeout_s):
            return await receive_body(request.receive, limit)
    except TimeoutError:
        raise BodyTooSlow("The body did not come in time.") from None


async def receive_body(receive: Receive, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientError("The connection closed before the whole body had come.")
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            if message.get("more_body", False):
                await discard(receive, limit * DISCARD_FACTOR, limit)
            raise too_large(limit)
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces) if len(pieces) > 1 else piece


async def discard(receive: Receive, expected: int, limit: int) -> None:
    """Reads on for a moment where the rest is small enough to be worth it; keeps nothing."""
    left = expected if expected <= limit * DISCARD_FACTOR else 0
    try:
        async with asyncio.timeout(DISCARD_TIMEOUT_S):
            while left > 0:
                message = await receive()
                if not message.get("more_body", False):
                    return
                left -= len(message["body"])
    except TimeoutError:
        return


def declared_length(headers: Headers) -> int | None:
    text = headers.get("content-length")
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ClientError("The Content-Length is not a number.")
    return int(text)


def too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than this server's limit of {limit} bytes.")


def decode(data: bytes, decoder: Decoder[Fields]) -> Fields:
    """Strict: RFC 8259 and nothing else, finite numbers, no key twice, no NUL, no lone surrogate."""
    if data.count(b'"') - data.count(b'\\"') > 2 * MAX_STRINGS:
        raise ClientError(f"The body holds more than {MAX_STRINGS} strings.")
    try:
        text = data.decode()
        fields = decoder.decode(data)
        UNIQUE_KEYS.decode(NUMBERS.sub("[]", text))
    except UnicodeDecodeError:
        raise ClientError("The body is not valid UTF-8.") from None
    except RecursionError:
        raise ClientError("The body is nested too deeply.") from None
    except msgspec.ValidationError as error:
        refuse_shape(str(error))
    except (msgspec.DecodeError, ValueError) as error:
        refuse_syntax(str(error))
    # Without the escaped backslashes, what is left of it stands for NUL and is no text about it.
    if NUL in text and NUL in text.replace("\\\\", ""):
        raise ClientError("The body holds a NUL character (U+0000).")
    return fields


def refuse_repeats(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise ClientError("An object of the body holds the same key twice.")


# msgspec lets the last of two equal keys win; two readers of one body must not see different requests. Long lists of
# numbers hold no key, and are cut out because this second parser takes 10 times as long over them as msgspec.
UNIQUE_KEYS = json.JSONDecoder(object_pairs_hook=refuse_repeats)
NUMBERS = re.compile(r"\[[0-9,\s]{256,}\]")
NUL = "\\u0000"

MISSING = re.compile(r"Object missing required field `(\w+)`")
PATH = re.compile(r"^(.*) - at `(?:key in )?\$\.?(.*)`$")
VALUE_QUOTED = re.compile(r"^Invalid ")


def refuse_shape(reason: str) -> NoReturn:
    """msgspec's message names the field and the types; where it would quote the value, ours does not."""
    located = PATH.match(reason)
    complaint, path = located.groups() if located else (reason, "")
    if missing := MISSING.search(complaint):
        path = f"{path}.{missing[1]}" if path else missing[1]
        raise ClientError(f"`{path}` is required.", param=path)
    if VALUE_QUOTED.match(complaint):
        complaint = "This value is not allowed"
    where = f"`{path}`" if path else "the body"
    raise ClientError(f"{complaint}, in {where}.", param=path or None)


def refuse_syntax(reason: str) -> NoReturn:
    position = re.search(r"byte (\d+)", reason)
    where = f" (byte {position[1]})" if position else ""
    raise ClientError(f"The body is not valid JSON{where}.")
