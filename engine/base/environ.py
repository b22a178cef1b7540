"""The only reader of the environment. Each variable is declared here once, with its meaning and its check."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from engine.base.errors import ConfigError

VARIABLES = {
    "ENGINE_API_KEY": "the key that clients must send as `Authorization: Bearer KEY`; --api-key wins",
    "ENGINE_CACHE": "folder for downloaded models and converted tokenizers (default: ~/.cache/enginewright)",
    "ENGINE_LOG_LEVEL": "debug, info, warning or error (default: info)",
    "ENGINE_ARG_<FLAG>": "a default for any flag of `engine serve`, e.g. ENGINE_ARG_MAX_NUM_SEQS=64",
}
ARG = "ENGINE_ARG_"
LOG_LEVELS = ("debug", "info", "warning", "error")


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where fetched and derived files live; not created here."""
    if own := environ.get("ENGINE_CACHE"):
        return Path(own).expanduser()
    if xdg := environ.get("XDG_CACHE_HOME"):
        return Path(xdg).expanduser() / "enginewright"
    return Path.home() / ".cache" / "enginewright"


def api_key(environ: Mapping[str, str] = os.environ) -> str | None:
    return environ.get("ENGINE_API_KEY") or None


def log_level(environ: Mapping[str, str] = os.environ) -> str:
    """Raises ConfigError when ENGINE_LOG_LEVEL is none of LOG_LEVELS."""
    level = environ.get("ENGINE_LOG_LEVEL", "info").lower()
    if level not in LOG_LEVELS:
        raise ConfigError(f"ENGINE_LOG_LEVEL is {level!r}; use one of {', '.join(LOG_LEVELS)}")
    return level


def flag_default(flag: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The environment twin of a flag: `max-num-seqs` reads ENGINE_ARG_MAX_NUM_SEQS."""
    return environ.get(ARG + flag.upper().replace("-", "_"))


def flags_given(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The fields that ENGINE_ARG_ variables name, spelt as fields are, whether there are such fields or not."""
    return [name.removeprefix(ARG).lower() for name in environ if name.startswith(ARG)]


def runtime_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """A private folder of this user for sockets; XDG_RUNTIME_DIR where there is one, else the temporary folder."""
    for name in ("XDG_RUNTIME_DIR", "TMPDIR"):
        if (folder := environ.get(name)) and os.access(folder, os.W_OK | os.X_OK):
            return Path(folder)
    return Path("/tmp")


def child_environment(threads: int, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a process we start: its thread pools are sized before any library reads them.

    Compute threads wait for each other by spinning briefly, then asleep: libgomp's own choice, to spin for long, stalls
    a step as soon as anything else runs on one of the processors (docs/decisions/0006-waiting-threads.md). A variable
    that the user has set stays.
    """
    sized = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
    patience = {} if "OMP_WAIT_POLICY" in environ else {"GOMP_SPINCOUNT": "5000"}
    return patience | dict(environ) | dict.fromkeys(sized, str(threads)) | {"TOKENIZERS_PARALLELISM": "false"}
