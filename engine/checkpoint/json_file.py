"""Reads the small JSON files of a Hugging Face folder. Knows none of their keys."""

from __future__ import annotations

import json
from pathlib import Path

from engine.base.errors import ModelFileError


def read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise ModelFileError(f"{path} is missing") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ModelFileError(f"{path} is not UTF-8") from None


def read_json(path: Path) -> dict[str, object]:
    """The object in `path`; raises ModelFileError where there is none."""
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ModelFileError(f"{path} is not a JSON object")
    return found


def read_json_or_empty(path: Path) -> dict[str, object]:
    return read_json(path) if path.exists() else {}
