"""Every error this engine raises on purpose; whose fault it is decides the class.

EnginewrightError
├── ConfigError          a flag, a field or a variable is wrong; raised before anything starts
├── ModelFileError       a model file cannot be used; says which file and why
├── ClientError          the request is wrong (4xx); raised only in client/admit and the frontends' parsers
│   ├── ModelNotFound    404
│   ├── PromptTooLong    400, code context_length_exceeded
│   └── Unsupported      501, asked for something this engine does not do
├── CapacityError        nobody's fault, try later (503, or 429 for a per-key limit)
└── EngineFault          our bug, or hardware (500)
    └── EngineDead       the core is gone (503)
"""

from __future__ import annotations


class EnginewrightError(Exception):
    """The root: catch this to catch everything the engine raises on purpose."""


class ConfigError(EnginewrightError):
    """A flag, a configuration field or an environment variable is wrong; the message names it."""


class ModelFileError(EnginewrightError):
    """A model file cannot be used; the message says which file and why."""


class ClientError(EnginewrightError):
    """The request is wrong. `param` names the field, `code` is OpenAI's string code where there is one."""

    status = 400

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


class ModelNotFound(ClientError):
    """No such model is served here; the message lists the names that are."""

    status = 404


class PromptTooLong(ClientError):
    """The prompt alone exceeds the context, or leaves no room for a token; shorten it."""


class Unsupported(ClientError):
    """The request is understood, and this engine does not do that; docs/out-of-scope.md says why."""

    status = 501


class CapacityError(EnginewrightError):
    """The queue is full (503), or one key asked too often (429); retry after `retry_after_s` seconds."""

    def __init__(self, message: str, *, status: int = 503, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.retry_after_s = retry_after_s


class EngineFault(EnginewrightError):
    """We are broken, or the hardware is; the request was fine."""

    status = 500


class EngineDead(EngineFault):
    """The core process is gone or does not move; nothing can be served until it is back."""

    status = 503
