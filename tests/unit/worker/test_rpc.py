from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Iterator

import msgspec
import pytest

from engine.base.errors import ClientError, ConfigError, EngineFault, ModelFileError
from engine.wire.frames import PeerGone
from engine.wire.step import StepPlan, StepResult
from engine.wire.worker import WorkerReady
from engine.worker.methods import EXECUTE, INITIALISE, RESET, SHUTDOWN, STATS, TABLE, WorkerStats
from engine.worker.rpc import Call, Hello, Methods, RemoteWorker, Reply, serve

PLAN = StepPlan(5, b"", [], b"", b"", b"", b"", b"")


class FakeWorker:
    """Answers with what it was asked; an exception set for a method is raised instead."""

    def __init__(self) -> None:
        self.errors: dict[str, BaseException] = {}
        self.asked: list[str] = []

    def methods(self) -> Methods:
        answers = {
            "initialise": lambda _: WorkerReady(1, 2, 3, 4),
            "execute": lambda plan: StepResult(plan.step, b"", b""),
            "reset": lambda _: None,
            "stats": lambda _: WorkerStats(steps=7),
            "shutdown": lambda _: None,
        }
        return {name: self.method(name, answer) for name, answer in answers.items()}

    def method(self, name, answer):
        def run(asked):
            self.asked.append(name)
            if name in self.errors:
                raise self.errors.pop(name)
            return answer(asked)

        return run


def frames(*calls: Call | bytes) -> Iterator[bytes]:
    """The core's frames, and then the core is gone."""
    for call in calls:
        yield call if isinstance(call, bytes) else msgspec.msgpack.encode(call)
    raise PeerGone


def replies(worker: FakeWorker, *calls: Call | bytes) -> list[Reply]:
    sent: list[bytes] = []
    incoming = frames(*calls)
    serve(worker, lambda: next(incoming), sent.append)
    assert msgspec.msgpack.decode(sent[0], type=Hello).table.keys() == TABLE.keys()
    return [msgspec.msgpack.decode(frame, type=Reply) for frame in sent[1:]]


def call(number: int, method: str, asked: object = None) -> Call:
    return Call(number, method, msgspec.msgpack.encode(asked))


@pytest.mark.parametrize("name", TABLE)
def test_every_method_of_the_table_answers_with_its_type(name):
    asked = {"execute": PLAN, "initialise": INITIALISE_NOTHING}.get(name)
    (reply,) = replies(FakeWorker(), call(3, name, asked))
    assert (reply.call, reply.fault) == (3, None)
    assert isinstance(msgspec.msgpack.decode(reply.payload, type=TABLE[name].answer), TABLE[name].answer)


INITIALISE_NOTHING = [{}, {}, {}, {}]


@pytest.mark.parametrize(
    ("bad", "number"),
    [
        pytest.param(call(4, "reboot"), 4, id="unknown-method"),
        pytest.param(Call(4, "execute", b"\xc1"), 4, id="payload-is-no-msgpack"),
        pytest.param(call(4, "execute", [1, 2]), 4, id="payload-is-no-plan"),
        pytest.param(b"\xc1\xff", 0, id="frame-is-no-call"),
        pytest.param(b"", 0, id="empty-frame"),
    ],
)
def test_a_bad_call_gets_one_reply_and_the_next_one_is_served(bad, number):
    worker = FakeWorker()
    first, second = replies(worker, bad, call(9, "stats"))
    assert first.call == number and first.fault.kind == "EngineFault"
    assert (second.call, second.fault) == (9, None) and worker.asked == ["stats"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConfigError("too small"), "ConfigError"),
        (ModelFileError("cut"), "ModelFileError"),
        (EngineFault("no"), "EngineFault"),
        (ClientError("not the worker's to raise"), "EngineFault"),
        (RuntimeError("from torch"), "EngineFault"),
        (MemoryError(), "EngineFault"),
    ],
)
def test_an_exception_is_a_typed_reply_and_the_worker_lives_on(error, kind):
    worker = FakeWorker()
    worker.errors["execute"] = error
    first, second = replies(worker, call(1, "execute", PLAN), call(2, "execute", PLAN))
    assert first.fault.kind == kind and str(error) in first.fault.message
    assert (second.call, second.fault) == (2, None)


def test_shutdown_is_answered_and_ends_the_service():
    worker = FakeWorker()
    assert [reply.call for reply in replies(worker, call(1, "shutdown"), call(2, "stats"))] == [1]
    assert worker.asked == ["shutdown"]


def test_an_interrupt_is_not_answered_but_ends_the_process():
    worker = FakeWorker()
    worker.errors["stats"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        replies(worker, call(1, "stats"))


@pytest.mark.parametrize("change", [lambda names: names.pop("reset"), lambda names: names.update(fly=None)])
def test_a_worker_whose_methods_are_not_the_table_is_refused_before_it_serves(change):
    class OtherWorker(FakeWorker):
        def methods(self) -> Methods:
            change(methods := dict(super().methods()))
            return methods

    sent: list[bytes] = []
    with pytest.raises(EngineFault, match=r"reset|fly"):
        serve(OtherWorker(), lambda: b"", sent.append)
    assert not sent


class Line:
    """Both ends in one thread: what the core sends is answered when it waits for the answer."""

    def __init__(self, worker: FakeWorker) -> None:
        self.worker = worker
        self.calls: list[bytes] = []
        self.answers: deque[bytes] = deque()
        self.run()

    def run(self) -> None:
        calls, self.calls = self.calls, []
        incoming = frames(*calls)
        sent: list[bytes] = []
        serve(self.worker, lambda: next(incoming), sent.append)
        self.answers.extend(sent[1:] if calls else sent)

    def recv(self) -> bytes:
        if not self.answers:
            self.run()
        return self.answers.popleft()


def remote(worker: FakeWorker) -> RemoteWorker:
    line = Line(worker)
    return RemoteWorker(line.recv, lambda frame: line.calls.append(frame))


def test_both_ends_understand_each_other():
    worker = remote(FakeWorker())
    assert worker.call(STATS, None) == WorkerStats(steps=7)
    assert worker.call(EXECUTE, PLAN) == StepResult(5, b"", b"")
    assert worker.call(RESET, None) is None
    assert worker.call(SHUTDOWN, None) is None


def test_errors_arrive_as_what_they_were():
    fake = FakeWorker()
    worker = remote(fake)
    for error in (ConfigError("kv_cache_memory_bytes is 1"), ModelFileError("cut"), EngineFault("no")):
        fake.errors["stats"] = error
        with pytest.raises(type(error), match=str(error)):
            worker.call(STATS, None)
    assert worker.call(STATS, None).steps == 7


def test_the_reply_to_a_call_that_was_given_up_is_dropped():
    worker = remote(FakeWorker())
    worker.submit(EXECUTE, PLAN)
    assert worker.call(STATS, None).steps == 7


@pytest.mark.parametrize("number", [0, 5])
def test_a_reply_to_no_call_of_ours_is_a_fault(number):
    incoming = iter([Hello(hello_table()), Reply(number)])
    worker = RemoteWorker(lambda: msgspec.msgpack.encode(next(incoming)), lambda _: None)
    with pytest.raises(EngineFault, match=f"answered call {number}"):
        worker.call(STATS, None)


def hello_table() -> dict[str, str]:
    sent: list[bytes] = []
    incoming = frames()
    serve(FakeWorker(), lambda: next(incoming), sent.append)
    return msgspec.msgpack.decode(sent[0], type=Hello).table


@pytest.mark.parametrize(
    ("change", "named"),
    [({"stats": "NoneType -> int"}, "stats"), ({"fly": "NoneType -> NoneType"}, "fly")],
    ids=["type-differs", "method-more"],
)
def test_a_worker_with_another_table_is_refused_at_start(change, named):
    other = msgspec.msgpack.encode(Hello(hello_table() | change))
    with pytest.raises(EngineFault, match=named):
        RemoteWorker(lambda: other, lambda _: None)


def test_the_core_can_read_the_table_without_torch():
    code = f"import sys, {RemoteWorker.__module__}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_initialise_takes_sections_of_the_configuration():
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(INITIALISE_NOTHING), type=INITIALISE.asked).cache.block_size
