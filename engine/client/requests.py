"""RequestTable: every request of this client that has not ended, and the way of a step's outputs to their streams.

Owns request ids and the rule that each Submit ends here in exactly one way. Knows no event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from engine.base.clock import Clock
from engine.base.errors import CapacityError, ClientError, EngineDead, EngineFault
from engine.base.ids import RequestIds
from engine.base.log import EventLog
from engine.client.admit import Admitted
from engine.client.assembler import FIRST_ATTEMPT, Assembler
from engine.client.collector import StreamOutputCollector
from engine.client.metrics import ClientMetrics, Timeline
from engine.client.stream import RequestStream
from engine.text.detokenizer import HasPieces
from engine.wire.output import Delta, Failed, StepOutput
from engine.wire.request import Abort, Submit, ToCore
from engine.wire.tokens import pack

log = EventLog(__name__)


class Sibling:
    """One answer that has not ended. `family`: the ids of all siblings of its request."""

    __slots__ = ("assembler", "collector", "family", "timeline")

    def __init__(
        self, assembler: Assembler, collector: StreamOutputCollector, family: tuple[int, ...], timeline: Timeline
    ) -> None:
        self.assembler = assembler
        self.collector = collector
        self.family = family
        self.timeline = timeline


class RequestTable:
    """`send` hands a message to the core. Everything here belongs to one thread, but `abandoned` may be appended to
    from any."""

    def __init__(
        self,
        send: Callable[[ToCore], None],
        tokenizer: HasPieces | None,
        clock: Clock,
        metrics: ClientMetrics,
        ids: RequestIds,
    ) -> None:
        self.send = send
        self.tokenizer = tokenizer
        self.clock = clock
        self.metrics = metrics
        self.ids = ids
        self.siblings: dict[int, Sibling] = {}
        self.abandoned: deque[tuple[int, ...]] = deque()
        """Requests whose stream nobody holds any more."""

    def open(self, admitted: Admitted) -> RequestStream:
        """Submits every sibling; the first is the one whose prefill the others wait for."""
        now = self.clock.now()
        family = tuple(self.ids.mint() for _ in admitted.sampling)
        collector = StreamOutputCollector(len(family))
        assemblers = [Assembler(index, admitted, self.tokenizer) for index in range(len(family))]
        stream = RequestStream(
            family,
            admitted.prompt_ids,
            assemblers,
            collector,
            release=partial(self.release, family),
            abandon=partial(self.abandoned.append, family),
        )
        for request, assembler in zip(family, assemblers, strict=True):
            self.siblings[request] = Sibling(assembler, collector, family, Timeline(now))
        self.submit(admitted, family, now)
        self.metrics.submitted(admitted)
        return stream

    def submit(self, admitted: Admitted, family: tuple[int, ...], now: float) -> None:
        tokens, num_prompt = pack(admitted.prompt_ids), len(admitted.prompt_ids)
        for request, sampling in zip(family, admitted.sampling, strict=True):
            self.send(
                Submit(
                    request=request,
                    attempt=FIRST_ATTEMPT,
                    tokens=tokens,
                    num_prompt=num_prompt,
                    sampling=sampling,
                    priority=admitted.priority,
                    arrival=now,
                    leader=0 if request == family[0] else family[0],
                    cache_salt=admitted.cache_salt,
                )
            )

    def deliver(self, output: StepOutput) -> None:
        """Hands everything of one step over, in one go."""
        now = self.clock.now()
        unwanted: list[int] = []
        for delta in output.deltas:
            unwanted += self.hand_over(delta, now)
        for failed in output.failed:
            unwanted += self.fail(failed, now)
        while self.abandoned:
            unwanted += self.forget(self.abandoned.popleft())
        self.abort(unwanted)
        self.metrics.step(output)

    def hand_over(self, delta: Delta, now: float) -> list[int]:
        """Returns the requests that nobody needs to go on."""
        sibling = self.siblings.get(delta.request)
        if sibling is None:
            self.metrics.stray_outputs.add()
            return []
        assembler = sibling.assembler
        before = assembler.num_tokens
        try:
            chunk = assembler.accept(delta, now)
            if chunk is not None:
                sibling.collector.put_nowait(chunk)
        except Exception as error:  # noqa: BLE001  # The edge between the engine and one stream: others go on.
            return self.stream_fault(sibling, error, now)
        if added := assembler.num_tokens - before:
            self.metrics.tokens(sibling.timeline, added, now)
        if not assembler.is_finished:
            return []
        self.end(delta.request, "stop" if chunk is None or chunk.finish_reason is None else chunk.finish_reason, now)
        return [] if delta.finish is not None else [delta.request]

    def stream_fault(self, sibling: Sibling, error: Exception, now: float) -> list[int]:
        log.exception("a stream failed", requests=sibling.family)
        self.metrics.stream_faults.add()
        fault = error if isinstance(error, EngineFault) else EngineFault("the answer could not be put together")
        return self.fail_family(sibling, fault, now)

    def fail(self, failed: Failed, now: float) -> list[int]:
        """The request ends with an error; siblings that still run are not needed any more."""
        sibling = self.siblings.get(failed.request)
        if sibling is None or failed.attempt != sibling.assembler.attempt:
            return []
        others = self.fail_family(sibling, error_of(failed), now)
        return [request for request in others if request != failed.request]

    def fail_family(self, sibling: Sibling, error: Exception, now: float) -> list[int]:
        sibling.collector.fail(error)
        ended = [request for request in sibling.family if request in self.siblings]
        for request in ended:
            self.end(request, "error", now)
        return ended

    def end(self, request: int, reason: str, now: float) -> None:
        sibling = self.siblings.pop(request)
        assembler = sibling.assembler
        num_prompt = len(assembler.admitted.prompt_ids)
        self.metrics.ended(sibling.timeline, reason, num_prompt, assembler.num_tokens, now)

    def forget(self, family: tuple[int, ...]) -> list[int]:
        """Nobody waits for these any more. Returns those that still ran."""
        ended = [request for request in family if request in self.siblings]
        for request in ended:
            self.end(request, "abort", self.clock.now())
        return ended

    def release(self, family: tuple[int, ...]) -> None:
        """The stream was closed: one Abort for what still ran, none where nothing did."""
        self.abort(self.forget(family))

    def is_over(self, family: tuple[int, ...]) -> bool:
        """Each of these has had its terminal output."""
        return not any(request in self.siblings for request in family)

    def abort(self, requests: list[int]) -> None:
        if requests:
            self.send(Abort(tuple(requests)))

    def fail_all(self, reason: str) -> list[int]:
        """The core is gone, or we are: every stream ends with an EngineDead of its own. Returns what still ran."""
        now, ended = self.clock.now(), list(self.siblings)
        for request in ended:
            if sibling := self.siblings.get(request):
                self.fail_family(sibling, EngineDead(reason), now)
        return ended


def error_of(failed: Failed) -> Exception:
    """Whose fault, by the status that the core gave."""
    if failed.status == 503:
        return CapacityError(failed.message, retry_after_s=max(failed.retry_after_s, 1))
    if failed.status == 400:
        return ClientError(failed.message, param="prompt")
    return EngineFault(failed.message)
