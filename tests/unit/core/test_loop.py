"""The core's loop with a real scheduler over a scripted worker, and the channel inside one process."""

from __future__ import annotations

import pytest

from engine.base.config import CacheConfig, SchedulerConfig
from engine.base.errors import EngineFault
from engine.base.ids import RequestIds
from engine.cache import KvCache
from engine.core.loop import EngineCore
from engine.schedule import Scheduler
from engine.wire.inproc import InprocChannel
from engine.wire.output import FinishReason, Ready, Reply, StepOutput, Stopped
from engine.wire.request import Abort, Call, Sampling, Submit
from engine.wire.step import StepPlan, StepResult
from engine.wire.tokens import pack_ints, unpack
from tests.fakes.manual_clock import ManualClock
from tests.fakes.scripted_worker import ScriptedWorker, next_token

READY = Ready(epoch=0, pid=1, max_model_len=64, num_blocks=8, block_size=4)


class ScriptedExecutor:
    """core.executor_port.Executor over a scripted worker; `fault` is raised instead of the next result."""

    def __init__(self) -> None:
        self.worker = ScriptedWorker(num_slots=4, num_blocks=32, block_size=4, max_tokens=16)
        self.plan: StepPlan | None = None
        self.fault: BaseException | None = None
        self.is_closed = False
        self.trips: list[str] = []

    def submit(self, plan: StepPlan) -> None:
        assert self.plan is None
        self.trips.append("out")
        self.plan = plan

    def collect(self) -> StepResult:
        assert self.plan is not None
        self.trips.append("back")
        plan, self.plan = self.plan, None
        if self.fault is not None:
            raise self.fault
        return self.worker.run(plan)

    def close(self) -> None:
        self.is_closed = True


class Rig:
    """A core and the client's end of its channel."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.channel = InprocChannel()
        self.executor = ScriptedExecutor()
        cache = KvCache(CacheConfig(block_size=4), 32)
        config = SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=16)
        scheduler = Scheduler(config, cache, max_model_len=64, clock=self.clock)
        self.core = EngineCore(scheduler, self.executor, self.channel.core, self.clock)
        self.ids = RequestIds()

    def submit(self, *tokens: int, max_tokens: int = 3) -> int:
        request = self.ids.mint()
        self.executor.worker.salts[request] = ""
        sampling = Sampling(max_tokens)
        self.channel.client.send(Submit(request, 0, pack_ints(tokens), len(tokens), sampling))
        return request

    def turns(self, number: int) -> list[StepOutput]:
        outputs: list[StepOutput] = []
        for _ in range(number):
            self.core.turn(0.0)
            outputs += [each for each in self.channel.client.receive() if isinstance(each, StepOutput)]
        return outputs


def test_a_request_becomes_tokens_one_message_a_step() -> None:
    rig = Rig()
    request = rig.submit(1, 2, 3)
    outputs = rig.turns(3)
    deltas = [delta for output in outputs for delta in output.deltas]
    tokens = [1, 2, 3]
    for _ in range(3):
        tokens.append(next_token(tokens))
    assert [token for delta in deltas for token in unpack(delta.tokens)] == tokens[3:]
    assert [delta.start for delta in deltas] == [0, 1, 2]
    assert deltas[-1].finish is FinishReason.LENGTH
    assert {delta.request for delta in deltas} == {request}
    assert outputs[-1].stats.running == 0


def test_an_abort_is_answered_and_frees_everything() -> None:
    rig = Rig()
    request = rig.submit(1, 2, 3, max_tokens=50)
    rig.turns(2)
    rig.channel.client.send(Abort((request, 12345)))
    (output,) = rig.turns(1)
    assert [delta.finish for delta in output.deltas] == [FinishReason.ABORT]
    assert (output.stats.running, output.stats.blocks_used) == (0, 0)


def test_an_idle_core_says_so_once_a_second() -> None:
    rig = Rig()
    rig.clock.advance(10.0)
    assert len(rig.turns(3)) == 1
    rig.clock.advance(1.0)
    assert [output.deltas for output in rig.turns(2)] == [[]]


def test_every_call_gets_one_reply_a_value_or_an_error() -> None:
    rig = Rig()
    for number, method in enumerate(("ping", "reset_prefix_cache", "no_such_method")):
        rig.channel.client.send(Call(number, method))
    rig.core.turn(0.0)
    replies = [each for each in rig.channel.client.receive() if isinstance(each, Reply)]
    assert [reply.call for reply in replies] == [0, 1, 2]
    assert replies[1].payload == b"1"
    assert replies[2].error is not None and "no_such_method" in replies[2].error


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (EngineFault("the device is gone"), "the device is gone"),
        (SystemExit(0), "shutting down"),
        (ZeroDivisionError("secret /path"), "ended unexpectedly"),
    ],
)
def test_HLM_03_whatever_ends_the_loop_clients_are_told_and_the_model_is_let_go(end: BaseException, says: str) -> None:
    rig = Rig()
    rig.executor.fault = end
    rig.submit(1, 2, 3)
    with pytest.raises(type(end)):
        rig.core.run(READY)
    first, *_, last = rig.channel.client.receive()
    assert first == READY
    assert isinstance(last, Stopped) and says in last.reason and "secret" not in last.reason
    assert rig.executor.is_closed


def test_a_step_is_one_trip_out_and_one_back() -> None:
    rig = Rig()
    rig.submit(*range(5), max_tokens=2)
    rig.turns(2)
    assert rig.executor.trips == ["out", "back"] * 2
