"""A core's end as a test writes it: keeps what the client sent, and says what it is told to say."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from engine.wire.codec import decode_from_core, decode_to_core, encode
from engine.wire.output import (
    CoreStats,
    Delta,
    Failed,
    FinishReason,
    FromCore,
    LogprobRows,
    Ready,
    Reply,
    StepOutput,
    StepTimes,
    Stopped,
)
from engine.wire.request import Abort, Call, Submit, ToCore
from engine.wire.tokens import pack, pack_ints

READY = Ready(epoch=0, pid=4242, max_model_len=64, num_blocks=32, block_size=4)


class ScriptedCore:
    """Is a ClientEnd itself. Every message goes through the codec both ways, as over a socket.

    `running` holds the ids that were submitted and have had no terminal output: DIS-02 wants it empty at the end.
    """

    def __init__(self) -> None:
        self.sent: list[ToCore] = []
        self.coming: list[bytes] = []
        self.running: dict[int, Submit] = {}
        self.starts: dict[int, int] = {}
        self.step = 0
        self.is_closed = False

    # What the client does.

    def send(self, message: ToCore) -> None:
        assert not self.is_closed, "a message after good-bye"
        message = decode_to_core(encode(message))
        self.sent.append(message)
        match message:
            case Submit():
                self.running[message.request] = message
                self.starts[message.request] = 0
            case Abort():
                for request in message.requests:
                    self.running.pop(request, None)

    def receive(self) -> list[FromCore]:
        coming, self.coming = self.coming, []
        return [decode_from_core(frame) for frame in coming]

    def close(self) -> None:
        self.is_closed = True

    # What the test reads.

    @property
    def submits(self) -> list[Submit]:
        return [message for message in self.sent if isinstance(message, Submit)]

    @property
    def aborts(self) -> list[tuple[int, ...]]:
        return [message.requests for message in self.sent if isinstance(message, Abort)]

    @property
    def calls(self) -> list[Call]:
        return [message for message in self.sent if isinstance(message, Call)]

    # What the core says.

    def say(self, message: FromCore) -> None:
        self.coming.append(encode(message))

    def output(
        self,
        deltas: Iterable[Delta] = (),
        failed: Iterable[Failed] = (),
        stats: CoreStats | None = None,
        times: StepTimes | None = None,
    ) -> None:
        """One step's message; terminal outputs end their requests here too."""
        self.step += 1
        deltas, failed = list(deltas), list(failed)
        for ended in [delta.request for delta in deltas if delta.finish is not None] + [f.request for f in failed]:
            self.running.pop(ended, None)
        stats = stats or CoreStats(running=len(self.running), steps=self.step)
        self.say(StepOutput(0, self.step, deltas, failed, stats, times or StepTimes()))

    def delta(
        self,
        request: int,
        tokens: Sequence[int] | array[int] = (),
        finish: FinishReason | None = None,
        *,
        start: int | None = None,
        attempt: int = 1,
        logprobs: LogprobRows | None = None,
        prompt_logprobs: LogprobRows | None = None,
        num_cached: int = 0,
    ) -> Delta:
        """The request's next tokens, unless `start` says otherwise."""
        at = self.starts.get(request, 0) if start is None else start
        self.starts[request] = at + len(tokens)
        return Delta(request, attempt, at, pack_ints(tokens), finish, num_cached, logprobs, prompt_logprobs)

    def emit(self, request: int, tokens: Sequence[int], finish: FinishReason | None = None) -> None:
        """A step that has news of one request only."""
        self.output([self.delta(request, tokens, finish)])

    def fail(self, request: int, message: str, status: int, retry_after_s: int = 0) -> None:
        self.output(failed=[Failed(request, 1, message, status, retry_after_s)])

    def answer(self, call: Call, payload: bytes = b"", error: str | None = None) -> None:
        self.say(Reply(call.call, payload, error))

    def stop(self, reason: str) -> None:
        self.say(Stopped(0, reason))


def logprob_rows(rows: Sequence[Sequence[tuple[int, float]]], ranks: Sequence[int]) -> LogprobRows:
    """rows: for each token its own (id, logprob), then the alternatives, best first; all of one length."""
    width = len(rows[0]) if rows else 1
    ids = array("i", [token for row in rows for token, _ in row])
    values = array("f", [value for row in rows for _, value in row])
    return LogprobRows(width, pack(ids), values.tobytes(), pack(array("i", ranks)))
