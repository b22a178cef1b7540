"""`engine run-batch`: every request of a batch file through the same app that serves HTTP, without a socket."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import uvloop
from msgspec import Struct, msgpack, structs

from engine.base.clock import SystemClock
from engine.base.config import EngineConfig
from engine.base.environ import runtime_folder
from engine.base.errors import ConfigError, EngineDead
from engine.base.log import EventLog
from engine.client.async_engine import AsyncEngine
from engine.client.metrics import ClientMetrics
from engine.launch.build_client import build_client
from engine.launch.core import core_main
from engine.launch.serve import END_CORE_S, resolve_model
from engine.launch.starts import CoreStart
from engine.process.inspect import usable_cores
from engine.process.setup import end_of_startup, setup_process
from engine.process.spawn import Child, spawn
from engine.process.titles import Role
from engine.wire.sockets import SocketClientEnd

log = EventLog(__name__)

WATCH_S = 0.5
ANY_NUMBER = 1 << 30
"""Requests that may wait in the core of a batch: its only client waits for its own lines, and refuses itself none."""


class BatchFiles(Struct, frozen=True):
    """Where the requests are and where the answers go; resume: keep the answers that are there already."""

    source: str
    target: str
    resume: bool = False


def run_batch(config: EngineConfig, files: BatchFiles) -> int:
    """Exit code 0 when every request got an answer, its own error included; 1 when the engine was lost on the way.

    Raises ConfigError when a file cannot be read or written, before the model is loaded.
    """
    source, target = Path(files.source), Path(files.target)
    check_files(source, target, resume=files.resume)
    setup_process(Role("batch"))
    config = resolve_model(config)
    config = structs.replace(config, scheduler=structs.replace(config.scheduler, max_num_queued_reqs=ANY_NUMBER))
    folder = tempfile.mkdtemp(prefix="enginewright-", dir=runtime_folder())
    endpoint = f"ipc://{folder}/batch"
    end = SocketClientEnd(endpoint)
    start = CoreStart(config, (endpoint,))
    core = spawn(
        core_main, msgpack.encode(start), Role("core", dp=0), threads=config.parallel.threads or usable_cores()
    )
    try:
        return uvloop.run(work(config, end, core, source, target))
    finally:
        core.terminate()
        core.end(END_CORE_S)
        end.close()
        shutil.rmtree(folder, ignore_errors=True)


def check_files(source: Path, target: Path, *, resume: bool) -> None:
    """Raises ConfigError for what would stop the batch only once the model is loaded."""
    if not source.is_file():
        raise ConfigError(f"-i {source}: no such file")
    if target.exists() and not resume:
        raise ConfigError(f"-o {target} exists: give another name, or --resume to answer only what it lacks")
    if target.is_dir() or not os.access(target if target.exists() else target.parent, os.W_OK):
        raise ConfigError(f"-o {target}: cannot be written")


async def work(config: EngineConfig, end: SocketClientEnd, core: Child, source: Path, target: Path) -> int:
    from engine.frontends.openai import create_app
    from engine.frontends.openai.batch import answer_batch

    parts = build_client(config)
    metrics = ClientMetrics(parts.limits.model_name)
    engine = AsyncEngine(end, parts.admission, parts.chat, SystemClock(), metrics)
    loop = asyncio.get_running_loop()
    loop.add_reader(end.fileno(), engine.pump)
    watching = loop.create_task(watch(core, engine))
    is_whole = False
    try:
        await engine.wait_ready()
        end_of_startup()
        app = create_app(engine, config.frontend, policy=config.scheduler.scheduling_policy)
        await answer_batch(app, source, target, concurrency=2 * config.scheduler.max_num_seqs)
        is_whole = True
    except* EngineDead as lost:  # The core has said why in its own log line.
        log.error(str(lost.exceptions[0]))
    finally:
        watching.cancel()
        loop.remove_reader(end.fileno())
        await engine.close()
    return 0 if is_whole else 1


async def watch(core: Child, engine: AsyncEngine) -> None:
    """Tells the engine when the core is lost, so that nobody waits for it."""
    while core.exit_code() is None:
        await asyncio.sleep(WATCH_S)
    engine.core_died("the engine core has ended")
