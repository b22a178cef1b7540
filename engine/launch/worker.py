"""Entry point of a worker process, and how a core starts one."""

from __future__ import annotations

import signal
import socket

from msgspec import msgpack

from engine.base.config import EngineConfig
from engine.executors.multiproc import MultiprocExecutor
from engine.launch.starts import WorkerStart
from engine.process.inspect import usable_cores
from engine.process.setup import end_of_startup, setup_process
from engine.process.spawn import spawn
from engine.process.titles import Role
from engine.wire.frames import FrameSocket
from engine.wire.worker import WorkerReady
from engine.worker.methods import Initialise

ROLE = Role("worker", dp=0, tp=0)


def start_worker(config: EngineConfig) -> tuple[MultiprocExecutor, WorkerReady]:
    """A worker process with the model loaded. Raises ConfigError or ModelFileError when it cannot load it."""
    ours, theirs = socket.socketpair()
    threads = config.parallel.threads or usable_cores()
    with theirs:
        start = msgpack.encode(WorkerStart(theirs.fileno()))
        child = spawn(worker_main, start, ROLE, threads=threads, files=(theirs.fileno(),))
    executor = MultiprocExecutor(child, FrameSocket(ours))
    try:
        ready = executor.initialise(Initialise(config.model, config.cache, config.scheduler, config.parallel))
    except BaseException:
        executor.close()
        raise
    return executor, ready


def worker_main(payload: bytes) -> None:
    """Answers its core's calls until it is told to end, or the core is gone."""
    start = msgpack.decode(payload, type=WorkerStart)
    setup_process(ROLE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from engine.base.clock import SystemClock
    from engine.worker.rpc import serve
    from engine.worker.worker import Worker

    frames = FrameSocket(socket.socket(fileno=start.connection))
    end_of_startup()
    serve(Worker(SystemClock()), frames.receive, frames.send)
