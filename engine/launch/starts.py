"""What the launcher hands to each process it starts, and how a process says that it could not start."""

from __future__ import annotations

from msgspec import Struct

from engine.base.config import EngineConfig

START_FAILED = 3
"""Exit code of a process that said why it could not start."""


class CoreStart(Struct, frozen=True):
    """launcher -> core, on its standard input. endpoints: one per API server."""

    config: EngineConfig
    endpoints: tuple[str, ...]


class ApiStart(Struct, frozen=True):
    """launcher -> API server, on its standard input. listener: the inherited listening socket; core: its pid."""

    config: EngineConfig
    index: int
    endpoint: str
    listener: int
    core: int


class WorkerStart(Struct, frozen=True):
    """core -> worker, on its standard input. connection: the inherited socket's number."""

    connection: int
