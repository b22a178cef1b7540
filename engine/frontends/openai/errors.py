"""Errors as clients see them: OpenAI's nested body, without paths, tracebacks or anything the client sent.

Owns the table from our errors to status, type and headers. Knows no route.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from fastapi.exceptions import RequestValidationError
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from engine.base.errors import CapacityError, ClientError, EngineFault
from engine.base.log import EventLog

log = EventLog(__name__)

MAX_MESSAGE_CHARS = 600
MAX_PARAM_CHARS = 100
INTERNAL = "The server made an error; its log has the details under this answer's x-request-id."
FRAMEWORK_MESSAGES = {
    404: "There is no such path on this server; see /openapi.json for those there are.",
    405: "This path does not take this method.",
}
TYPES = {
    401: "authentication_error",
    429: "rate_limit_error",
    501: "not_implemented_error",
    503: "service_unavailable_error",
}
# The client may still be sending a body that nobody will read: the connection cannot carry another request.
CLOSING_STATUSES = frozenset({408, 413})


class ErrorDetail(Struct):
    """OpenAI's error object. `code` is a word such as context_length_exceeded, null where there is none."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(Struct):
    """The body of every answer that is not 2xx, and the payload of an error event in a stream."""

    error: ErrorDetail


class Problem(Struct):
    """What an exception becomes for the client."""

    status: int
    body: ErrorBody
    headers: dict[str, str]

    def response(self) -> Response:
        return Response(msgspec.json.encode(self.body), self.status, self.headers, "application/json")


def problem(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Problem:
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    detail = ErrorDetail(clean(message), kind, clean(param)[:MAX_PARAM_CHARS] if param else None, code)
    closing = {"connection": "close"} if status in CLOSING_STATUSES else {}
    return Problem(status, ErrorBody(detail), {**(headers or {}), **closing})


def describe(error: BaseException) -> Problem:
    """The one table from exceptions to answers. What nobody meant to raise is logged and answered 500."""
    match error:
        case ClientError():
            return problem(error.status, error.message, param=error.param, code=error.code)
        case CapacityError():
            return problem(error.status, error.message, headers={"retry-after": str(error.retry_after_s)})
        case EngineFault():
            if error.status == 503:  # The core's end is logged once, where it is noticed.
                return problem(503, str(error), headers={"retry-after": "1"})
            log.error("request_failed", reason=error)
            return problem(error.status, str(error))
        case HTTPException():
            message = FRAMEWORK_MESSAGES.get(error.status_code, "The request cannot be served.")
            return problem(error.status_code, message, headers=error.headers)
        case RequestValidationError():
            return problem(400, "A parameter of the path or the query has the wrong form.")
        case _:
            log.exception("request_crashed")
            return problem(500, INTERNAL)


async def answer(_request: Request, error: Exception) -> Response:
    """The exception handler of the application."""
    return describe(error).response()


SCRUBBED = (
    (re.compile(r'File "[^"]*", line \d+(, in \S+)?'), ""),
    (re.compile(r"\bfile:\S+"), "[path]"),
    (re.compile(r"(?<![\w/:.<])(?:[A-Za-z]:)?(?:[\\/][\w.@+~-]+){2,}[\\/]?"), "[path]"),
    (re.compile(r"\b[\w.-]+\.py\b(:\d+)?"), "[source]"),
    (re.compile(r"\b0x[0-9a-fA-F]{6,}\b"), "[address]"),
    (re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+"), " "),
)


def clean(message: str) -> str:
    """One short line that any JSON writer can take: no path, address, traceback or control character."""
    if "Traceback (most recent call last)" in message:
        return INTERNAL
    text = message[: 4 * MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode()
    for pattern, replacement in SCRUBBED:
        text = pattern.sub(replacement, text)
    text = text.strip()
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"
