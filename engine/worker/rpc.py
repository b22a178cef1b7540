"""Calls to a worker process: msgpack frames, one reply to every call, the table checked at start on both sides.

Owns both ends of the conversation. Knows no socket (frames come and go through two functions) and no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from engine.base.errors import CapacityError, ConfigError, EngineFault, EnginewrightError, ModelFileError
from engine.base.log import EventLog
from engine.wire.frames import PeerGone
from engine.worker.methods import SHUTDOWN, TABLE, Answer, Asked, Method, signatures

log = EventLog(__name__)


class Hello(Struct, frozen=True, array_like=True, tag="hello"):
    """worker -> core, unasked, once: the methods it serves, each as `Asked -> Answer`."""

    table: dict[str, str]


class Call(Struct, frozen=True, gc=False, array_like=True, tag="call"):
    """core -> worker. `call` counts up from 1."""

    call: int
    method: str
    payload: bytes


class Fault(Struct, frozen=True, gc=False, array_like=True):
    """kind: a class of base/errors."""

    kind: str
    message: str


class Reply(Struct, frozen=True, gc=False, array_like=True, tag="reply"):
    """worker -> core: what the call of this number gave. 0: of a frame that was no call."""

    call: int
    payload: bytes = b""
    fault: Fault | None = None


KINDS = {kind.__name__: kind for kind in (ConfigError, ModelFileError, CapacityError, EngineFault)}
"""Errors that keep their class on the way; any other arrives as EngineFault."""

encode = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(Call).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
decode_hello = msgspec.msgpack.Decoder(Hello).decode
DECODE_ASKED = {method.name: msgspec.msgpack.Decoder(method.asked).decode for method in TABLE.values()}
DECODE_ANSWER = {method.name: msgspec.msgpack.Decoder(method.answer).decode for method in TABLE.values()}

# Any: the types differ by method; the table has them, and decoding checks what comes in.
Methods = Mapping[str, Callable[[Any], object]]


class Served(Protocol):
    """What serve needs of a worker."""

    def methods(self) -> Methods:
        """A function for each name of the table, taking and giving what the table says."""


def serve(worker: Served, recv: Callable[[], bytes], send: Callable[[bytes], None]) -> None:
    """Answers calls until `shutdown` is one, or the core is gone (PeerGone).

    Each call gets one reply, also when it fails. Raises EngineFault before anything is served when the worker's
    methods are not those of the table.
    """
    methods = worker.methods()
    if odd := set(methods) ^ set(TABLE):
        raise EngineFault(f"the worker and its table differ in: {', '.join(sorted(odd))}")
    try:
        send(encode(Hello(signatures())))
        while send_answer(methods, recv(), send):
            continue
    except PeerGone:
        log.info("core_gone")


def send_answer(methods: Methods, frame: bytes, send: Callable[[bytes], None]) -> bool:
    """Runs the call in the frame and replies. False after `shutdown`."""
    call = Call(0, "", b"")
    try:
        call = decode_call(frame)
        if call.method not in TABLE:
            raise EngineFault(f"a worker has no method {call.method!r}")
        reply = Reply(call.call, encode(methods[call.method](DECODE_ASKED[call.method](call.payload))))
    except Exception as error:  # The edge of the process: a call that fails is answered, and the worker lives on.
        log.exception("call_failed", method=call.method)
        reply = Reply(call.call, fault=fault_of(error))
    send(encode(reply))
    return call.method != SHUTDOWN.name


def fault_of(error: Exception) -> Fault:
    if isinstance(error, EnginewrightError):
        kind = type(error).__name__
        return Fault(kind if kind in KINDS else EngineFault.__name__, str(error))
    return Fault(EngineFault.__name__, f"{type(error).__name__}: {error}")


class RemoteWorker:
    """The core's end. Calls are answered in the order they were made; recv blocks, and may time out as it likes."""

    def __init__(self, recv: Callable[[], bytes], send: Callable[[bytes], None]) -> None:
        """Waits for the worker's hello. Raises EngineFault when its table is another one than ours."""
        self.recv = recv
        self.send = send
        self.calls = 0
        odd = {name for name, _ in signatures().items() ^ decode_hello(recv()).table.items()}
        if odd:
            raise EngineFault(f"core and worker differ in: {', '.join(sorted(odd))}")

    def call(self, method: Method[Asked, Answer], asked: Asked) -> Answer:
        return self.collect(method, self.submit(method, asked))

    def submit(self, method: Method[Asked, Answer], asked: Asked) -> int:
        """Sends without waiting; the number is for collect."""
        self.calls += 1
        self.send(encode(Call(self.calls, method.name, encode(asked))))
        return self.calls

    def collect(self, method: Method[Asked, Answer], call: int) -> Answer:
        """Raises what the worker raised (one of KINDS). Replies to earlier calls, given up by then, are dropped."""
        while 0 < (reply := decode_reply(self.recv())).call < call:
            continue
        if reply.fault is not None:
            raise KINDS.get(reply.fault.kind, EngineFault)(reply.fault.message)
        if reply.call != call:
            raise EngineFault(f"the worker answered call {reply.call} instead of {call}")
        answer: Answer = DECODE_ANSWER[method.name](reply.payload)
        return answer
