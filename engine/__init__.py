"""Enginewright: an LLM serving engine. Its whole public surface, loaded lazily.

`import engine` loads no torch and no HTTP library; each name below loads its part when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from engine.base.version import VERSION

if TYPE_CHECKING:
    from engine.base.config import EngineConfig as EngineConfig
    from engine.client.async_engine import AsyncEngine as AsyncEngine
    from engine.launch.offline import LLM as LLM
    from engine.wire.params import SamplingParams as SamplingParams

__version__ = VERSION
__all__ = ["LLM", "AsyncEngine", "EngineConfig", "SamplingParams", "__version__"]

HOMES = {
    "EngineConfig": "engine.base.config",
    "SamplingParams": "engine.wire.params",
    "LLM": "engine.launch.offline",
    "AsyncEngine": "engine.client.async_engine",
}


def __getattr__(name: str) -> object:
    home = HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return vars(import_module(home))[name]


def __dir__() -> list[str]:
    return sorted(__all__)
