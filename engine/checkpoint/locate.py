"""From what a user calls a model to where it lies.

Owns the default model's name and the sentence on what may be passed. Opens no model.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.base.environ import cache_folder
from engine.base.errors import ModelFileError
from engine.checkpoint.fetch import fetch

MAGIC = b"GGUF"
"""How a GGUF file begins."""
DEFAULT_MODEL = "SmolLM2-135M-Instruct"
MAY_BE = f"pass a .gguf file, a Hugging Face folder, or {DEFAULT_MODEL} (the default)"
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*(?<!\.gguf)")


def locate(model: str | None) -> Path:
    """A GGUF file or a Hugging Face folder; fetches the default model where it is asked for.

    What exists under the given path wins over a name. Raises ModelFileError saying what may be passed.
    """
    if model is None:
        return fetch(cache_folder())
    path = Path(model).expanduser()
    if path.is_dir():
        return in_folder(path)
    if path.is_file():
        return as_file(path)
    if model.lower() == DEFAULT_MODEL.lower():
        return fetch(cache_folder())
    if HUB_ID.fullmatch(model):
        raise ModelFileError(
            f"{model} is not a local path, and downloading from a hub is not supported: pass the folder of a download"
        )
    raise ModelFileError(f"{model} does not exist: {MAY_BE}")


def in_folder(folder: Path) -> Path:
    """The folder itself, or the one GGUF file in it."""
    has_config, has_weights = (folder / "config.json").is_file(), any(folder.glob("*.safetensors*"))
    ggufs = sorted(folder.glob("*.gguf"))
    if has_config and (has_weights or not ggufs):
        return folder
    if len(ggufs) == 1:
        return ggufs[0]
    if ggufs:
        names = ", ".join(path.name for path in ggufs[:3])
        raise ModelFileError(f"{folder} holds {len(ggufs)} GGUF files ({names}): pass one of them")
    raise ModelFileError(f"{folder} has no config.json and no .gguf file: {MAY_BE}")


def as_file(path: Path) -> Path:
    if path.suffix.lower() == ".gguf":
        return path
    try:
        with path.open("rb") as file:
            is_gguf = file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from None
    if not is_gguf:
        raise ModelFileError(f"{path} is not a GGUF file: {MAY_BE}")
    return path
