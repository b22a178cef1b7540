"""The table of what may be asked of a worker process, and the messages that only it uses.

Knows no socket and, for the sake of the core's process, no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from engine.base.config import CacheConfig, ModelConfig, ParallelConfig, SchedulerConfig
from engine.wire.step import StepPlan, StepResult
from engine.wire.worker import WorkerReady

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Initialise(Struct, frozen=True, array_like=True):
    """core -> worker, first of all: load this model and make room for its cache."""

    model: ModelConfig
    cache: CacheConfig
    scheduler: SchedulerConfig
    parallel: ParallelConfig


class WorkerStats(Struct, frozen=True, gc=False, array_like=True):
    """worker -> core: what it has done since it was initialised, and how many sequences it keeps now."""

    steps: int = 0
    rows: int = 0
    """Query tokens computed."""
    drawn: int = 0
    corrupted: int = 0
    running: int = 0


class Method(NamedTuple, Generic[Asked, Answer]):
    """One line of the table; NoneType where there is nothing to say."""

    name: str
    asked: type[Asked]
    answer: type[Answer]


INITIALISE = Method("initialise", Initialise, WorkerReady)
EXECUTE = Method("execute", StepPlan, StepResult)
RESET = Method("reset", type(None), type(None))
STATS = Method("stats", type(None), WorkerStats)
SHUTDOWN = Method("shutdown", type(None), type(None))

# Any: each line has its own two types, and a mapping has no name for that.
TABLE: Mapping[str, Method[Any, Any]] = {
    INITIALISE.name: INITIALISE,
    EXECUTE.name: EXECUTE,
    RESET.name: RESET,
    STATS.name: STATS,
    SHUTDOWN.name: SHUTDOWN,
}


def signatures() -> dict[str, str]:
    """What two processes compare to know that they mean the same table."""
    return {method.name: f"{method.asked.__name__} -> {method.answer.__name__}" for method in TABLE.values()}
