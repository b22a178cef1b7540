"""The model runs in a worker process of its own, reached over a socket pair; the calls are worker/rpc's.

Owns the worker's life: a lost worker is seen at once, a silent one at its deadline. Starts none: launch does.
"""

from __future__ import annotations

from engine.base.errors import EngineFault
from engine.process.spawn import Child
from engine.wire.frames import FrameSocket, PeerGone
from engine.wire.step import StepPlan, StepResult
from engine.wire.worker import WorkerReady
from engine.worker.methods import EXECUTE, INITIALISE, SHUTDOWN, Initialise
from engine.worker.rpc import RemoteWorker

LOAD_S = 600.0
STEP_S = 120.0
END_S = 5.0


class MultiprocExecutor:
    """Implements core.executor_port.Executor over one worker process."""

    def __init__(self, child: Child, frames: FrameSocket) -> None:
        """Waits for the worker's hello. Raises EngineFault when it is not there, or of another version."""
        self.child = child
        self.frames = frames
        self.deadline_s = LOAD_S
        self.call = 0
        self.is_closed = False
        self.worker = RemoteWorker(self.receive, self.send)

    def initialise(self, asked: Initialise) -> WorkerReady:
        """Loads the model there. Raises what the worker raised: ConfigError, ModelFileError."""
        ready = self.worker.call(INITIALISE, asked)
        self.deadline_s = STEP_S
        return ready

    def submit(self, plan: StepPlan) -> None:
        self.call = self.worker.submit(EXECUTE, plan)

    def collect(self) -> StepResult:
        return self.worker.collect(EXECUTE, self.call)

    def close(self) -> None:
        """Asks the worker to end, and ends it where it does not."""
        if self.is_closed:
            return
        self.is_closed = True
        self.deadline_s = END_S
        try:
            self.worker.call(SHUTDOWN, None)
        except EngineFault:
            self.child.terminate()  # It is gone, or does not answer.
        self.frames.close()
        self.child.end(END_S)

    def receive(self) -> bytes:
        try:
            return self.frames.receive(self.deadline_s)
        except TimeoutError as error:
            raise EngineFault(f"{self.child.name} has not answered for {self.deadline_s:.0f} s") from error
        except PeerGone as error:
            raise EngineFault(f"{self.child.name} is gone") from error

    def send(self, frame: bytes) -> None:
        try:
            self.frames.send(frame)
        except PeerGone as error:
            raise EngineFault(f"{self.child.name} is gone") from error
