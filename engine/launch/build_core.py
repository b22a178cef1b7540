"""Puts a core together: model, cache, scheduler, loop. Imports the computing half, so only core processes use it."""

from __future__ import annotations

import os

from engine.base.clock import Clock
from engine.base.config import EngineConfig
from engine.cache import KvCache
from engine.core.executor_port import Executor
from engine.core.loop import EngineCore
from engine.executors.inline import InlineExecutor
from engine.launch.worker import start_worker
from engine.schedule import Scheduler
from engine.wire.channel import CoreEnd
from engine.wire.output import Ready
from engine.wire.worker import WorkerReady
from engine.worker.build import build_runner


def build_core(
    config: EngineConfig, end: CoreEnd, clock: Clock, *, num_api_servers: int = 1
) -> tuple[EngineCore, Ready]:
    """Loads the model; ready to run. Raises ConfigError or ModelFileError when it cannot."""
    executor, worker = open_executor(config, clock)
    cache = KvCache(config.cache, worker.num_blocks)
    scheduler = Scheduler(config.scheduler, cache, max_model_len=worker.max_model_len, clock=clock)
    core = EngineCore(scheduler, executor, end, clock, num_api_servers=num_api_servers)
    return core, Ready(
        core.epoch, os.getpid(), worker.max_model_len, worker.num_blocks, config.cache.block_size, worker.chosen
    )


def open_executor(config: EngineConfig, clock: Clock) -> tuple[Executor, WorkerReady]:
    """Where the model runs. Raises ConfigError or ModelFileError when it cannot be loaded there."""
    if config.parallel.executor == "multiproc":
        return start_worker(config)
    runner, ready = build_runner(config.model, config.cache, config.scheduler, config.parallel, clock)
    return InlineExecutor(runner), ready
