"""A request from generate to its end, over a scripted core; nobody waits for ever, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from engine.base.errors import CapacityError, ClientError, EngineDead, EngineFault, PromptTooLong
from engine.client.async_engine import INLINE_CHARS, AsyncEngine
from engine.client.liveness import Liveness
from engine.client.stream import RequestStream
from engine.process.inspect import ProcessState
from engine.wire.chunk import Chunk
from engine.wire.output import CoreStats, Delta, FinishReason
from engine.wire.params import SamplingParams
from engine.wire.request import Abort, Submit
from engine.wire.tokens import pack_ints, unpack
from tests.fakes.manual_clock import ManualClock
from tests.fakes.scripted_core import READY, ScriptedCore, logprob_rows
from tests.unit.client.models import CONTEXT, EOS, admission, bare_admission, engine, params, tokenizer

END, LENGTH = FinishReason.END, FinishReason.LENGTH
HELLO = tokenizer().encode("hello the quick", add_special_tokens=False)


def turn(made: AsyncEngine) -> None:
    made.pump()


def is_idle(made: AsyncEngine, core: ScriptedCore) -> bool:
    """Every table of both sides is empty."""
    return not made.table.siblings and not core.running and not made.calls.waiting and not made.starting


async def gathered(stream: RequestStream) -> dict[int, list[Chunk]]:
    found: dict[int, list[Chunk]] = {}
    async for chunk in stream:
        found.setdefault(chunk.index, []).append(chunk)
    return found


class TestGenerate:
    async def test_a_prompt_is_submitted_once_in_its_final_form(self) -> None:
        core, clock = ScriptedCore(), ManualClock()
        made = engine(core, clock=clock)
        async with await made.generate("the quick", params(seed=5), priority=-3, cache_salt="s") as stream:
            (submit,) = core.submits
            assert unpack(submit.tokens) == stream.prompt_token_ids == tokenizer().encode("the quick")
            assert submit.num_prompt == len(stream.prompt_token_ids) and submit.attempt == 1
            assert (submit.priority, submit.cache_salt, submit.arrival) == (-3, "s", clock.now())
            assert submit.sampling.seed == 5 and submit.leader == 0

    async def test_tokens_come_out_as_text(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        stream = await made.generate([5], params())
        core.emit(stream.requests[0], HELLO[:2])
        turn(made)
        first = await stream.get()
        core.emit(stream.requests[0], [*HELLO[2:], EOS], END)
        turn(made)
        rest = await stream.get()
        assert (first.text or "") + (rest.text or "") == "hello the quick"
        assert rest.finished and rest.finish_reason == "stop" and rest.stop_reason is None and stream.is_done
        assert is_idle(made, core)

    async def test_siblings_wait_for_the_first_ones_prefill_and_keep_their_index(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        async with await made.generate([5], params(n=3, seed=1)) as stream:
            first, *others = core.submits
            assert first.leader == 0 and [submit.leader for submit in others] == [first.request] * 2
            assert [submit.sampling.seed for submit in core.submits] == [1, 2, 3]
            for token in range(3):
                core.output([core.delta(request, [10 + token]) for request in reversed(stream.requests)])
            core.output([core.delta(request, [20 + place], LENGTH) for place, request in enumerate(stream.requests)])
            turn(made)
            found = await gathered(stream)
        assert {index: chunks[-1].token_ids.tolist()[-1] for index, chunks in found.items()} == {0: 20, 1: 21, 2: 22}
        assert core.aborts == [] and is_idle(made, core)

    async def test_DIS_02_nothing_of_a_finished_request_stays(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        for number in range(200):
            async with await made.generate([5], params(n=1 + number % 2)) as stream:
                core.output([core.delta(request, [7, EOS], END) for request in stream.requests])
                turn(made)
                await gathered(stream)
        assert is_idle(made, core) and core.aborts == []
        assert len(made.metrics.success.values) == 1 and made.metrics.success.values[("stop",)] == 300

    async def test_a_step_is_handed_over_in_one_callback(self) -> None:
        """Splitting it would let a later step overtake the rest of an earlier one."""
        core = ScriptedCore()
        made = engine(core)
        streams = [await made.generate([5], params()) for _ in range(50)]
        await asyncio.sleep(0)
        seen: list[int] = []
        readers = [asyncio.create_task(read(stream, seen, number)) for number, stream in enumerate(streams)]
        await asyncio.sleep(0)
        core.output([core.delta(stream.requests[0], [7], LENGTH) for stream in streams])
        turn(made)
        assert made.table.siblings == {} and seen == []
        await asyncio.gather(*readers)
        assert seen == list(range(50))

    async def test_a_slow_reader_gets_everything_folded(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        async with await made.generate([5], params(logprobs=0)) as stream:
            for token in HELLO:
                core.output([core.delta(stream.requests[0], [token], logprobs=logprob_rows([[(token, -1.0)]], [1]))])
                turn(made)
            chunk = await stream.get()
            assert chunk.text == "hello the quick" and chunk.token_ids == HELLO
            assert chunk.logprobs == logprob_rows([[(token, -1.0)] for token in HELLO], [1] * len(HELLO))

    async def test_prompt_log_probabilities_come_with_the_first_chunk(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        rows = [logprob_rows([[(token, -1.0)]], [1]) for token in (6, 7)]
        async with await made.generate([5, 6, 7], params(prompt_logprobs=0, n=2)) as stream:
            first, second = stream.requests
            core.output([core.delta(first, prompt_logprobs=rows[0], num_cached=2)])
            core.output([core.delta(second, [9]), core.delta(first, [8], prompt_logprobs=rows[1])])
            turn(made)
            chunk = await stream.get()
            assert chunk.index == 1
            assert stream.prompt_logprobs == logprob_rows([[(6, -1.0)], [(7, -1.0)]], [1, 1])
            assert stream.num_cached_tokens == 2 and (await stream.get()).num_cached_tokens == 2

    async def test_a_stop_string_ends_the_request_with_one_abort_and_what_follows_is_ignored(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        async with await made.generate([5], params(stop=["the"])) as stream:
            (request,) = stream.requests
            for token in HELLO:
                core.emit(request, [token])
            core.output([core.delta(request, [], FinishReason.ABORT)])
            turn(made)
            (chunks,) = (await gathered(stream)).values()
        assert "".join(chunk.text or "" for chunk in chunks) == "hello " and chunks[-1].stop_reason == "the"
        assert core.aborts == [(request,)] and is_idle(made, core)

    async def test_no_abort_where_the_core_ended_with_the_stop_string(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        async with await made.generate([5], params(stop=["the"])) as stream:
            core.emit(stream.requests[0], HELLO, LENGTH)
            turn(made)
            assert (await stream.get()).stop_reason == "the"
        assert core.aborts == []

    async def test_LEN_07_only_the_prompt(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        async with await made.generate([5, 6], params(max_tokens=0, prompt_logprobs=0), allow_zero=True) as stream:
            core.output([core.delta(stream.requests[0], [8], LENGTH, prompt_logprobs=logprob_rows([[(6, -1.0)]], [1]))])
            turn(made)
            chunk = await stream.get()
            assert (chunk.text, len(chunk.token_ids), chunk.finish_reason) == ("", 0, "length")
            assert stream.prompt_logprobs is not None

    async def test_token_ids_in_and_out_without_a_tokenizer(self) -> None:
        core = ScriptedCore()
        made = engine(core, bare_admission())
        async with await made.generate([5], params()) as stream:
            core.emit(stream.requests[0], [6, 7], LENGTH)
            turn(made)
            assert await stream.get() == Chunk(
                0, array("i", [6, 7]), None, True, "length", None, None, 0, 1000.0, 1000.0
            )


async def read(stream: RequestStream, seen: list[int], number: int) -> None:
    await stream.get()
    seen.append(number)


class TestRefused:
    @pytest.mark.parametrize(
        ("prompt", "fields", "error"),
        [
            ([1] * CONTEXT, {}, PromptTooLong),
            ("", {}, ClientError),
            ([1], {"temperature": 3}, ClientError),
            ("x" * (INLINE_CHARS + 1), {}, PromptTooLong),
            ("x" * (INLINE_CHARS + 1), {"n": 0}, ClientError),
        ],
    )
    async def test_what_is_wrong_never_reaches_the_core(
        self, prompt: str, fields: dict[str, object], error: type[Exception]
    ) -> None:
        core = ScriptedCore()
        made = engine(core)
        with pytest.raises(error):
            await made.generate(prompt, params(**fields))
        assert core.sent == [] and is_idle(made, core)

    @pytest.mark.parametrize(
        ("status", "error"), [(503, CapacityError), (400, ClientError), (500, EngineFault)], ids=str
    )
    async def test_what_the_core_refuses_ends_the_stream_with_its_error(
        self, status: int, error: type[Exception]
    ) -> None:
        core = ScriptedCore()
        made = engine(core)
        async with await made.generate([1], params(n=2)) as stream:
            first, second = stream.requests
            core.emit(second, [7])
            core.fail(first, "no room", status, retry_after_s=3)
            turn(made)
            assert (await stream.get()).index == 1
            with pytest.raises(error, match="no room") as caught:
                await stream.get()
            if isinstance(caught.value, CapacityError):
                assert caught.value.retry_after_s == 3
        assert core.aborts == [(second,)] and is_idle(made, core)
        assert made.metrics.success.values == {("error",): 2.0}


class TestClosing:
    async def test_close_sends_one_abort_for_what_still_runs(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        stream = await made.generate([1], params(n=3))
        first, second, third = stream.requests
        core.emit(second, [7], LENGTH)
        turn(made)
        stream.close()
        stream.close()
        assert core.aborts == [(first, third)] and is_idle(made, core) and stream.is_done

    async def test_what_comes_after_close_is_nobodys(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        stream, healthy = await made.generate([1], params()), await made.generate([1], params())
        stream.close()
        core.output([core.delta(stream.requests[0], [7]), core.delta(healthy.requests[0], [8])])
        core.output([core.delta(stream.requests[0], [], FinishReason.ABORT)])
        turn(made)
        assert (await healthy.get()).token_ids.tolist() == [8]
        assert made.metrics.stray_outputs.total() == 2

    async def test_an_error_in_the_reader_ends_the_request(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        with pytest.raises(KeyError):
            async with await made.generate([1], params()):
                raise KeyError
        assert len(core.aborts) == 1 and is_idle(made, core)

    async def test_LGP_08_closing_at_any_point_of_a_stream_with_logprobs_harms_no_neighbour(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        neighbour = await made.generate([1], params())
        for stops_at in range(6):
            stream = await made.generate([1], params(logprobs=1))
            for step in range(6):
                if step == stops_at:
                    stream.close()
                row = logprob_rows([[(7, -1.0), (8, -2.0)]], [1])
                core.output([core.delta(stream.requests[0], [7], logprobs=row), core.delta(neighbour.requests[0], [9])])
                turn(made)
                if step < stops_at:
                    assert (await stream.get()).logprobs == row
        core.emit(neighbour.requests[0], [9], LENGTH)
        turn(made)
        (chunks,) = (await gathered(neighbour)).values()
        assert sum(len(chunk.token_ids) for chunk in chunks) == 37 and is_idle(made, core)

    async def test_DIS_07_a_stream_that_nobody_holds_is_aborted(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        stream = await made.generate([1], params())
        (request,) = stream.requests
        del stream
        gc.collect()
        core.output()  # a heartbeat
        turn(made)
        assert core.aborts == [(request,)] and is_idle(made, core)

    async def test_close_of_the_engine_ends_every_stream(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        streams = [await made.generate([1], params()) for _ in range(3)]
        waiting = asyncio.create_task(streams[0].get())
        calling = asyncio.create_task(made.call("ping"))
        await asyncio.sleep(0)
        await made.close()
        await made.close()
        for reading in (waiting, calling, streams[1].get()):
            with pytest.raises(EngineDead):
                await reading
        with pytest.raises(EngineDead):
            await made.generate([1], params())
        assert len(core.aborts) == 1 and len(core.aborts[0]) == 3 and core.is_closed and is_idle(made, core)
        for stream in streams:
            stream.close()


class TestDeath:
    @pytest.mark.parametrize("how", ["stopped", "died", "unreadable"])
    async def test_whoever_waits_is_told_at_once(self, how: str) -> None:
        core = ScriptedCore()
        made = engine(core)
        streams = [await made.generate([1], params(n=2)) for _ in range(3)]
        core.emit(streams[0].requests[0], [7])
        turn(made)
        readers = [asyncio.create_task(stream.get()) for stream in streams[1:]]
        calling = asyncio.create_task(made.call("ping"))
        await asyncio.sleep(0)
        if how == "stopped":
            core.stop("the model could not run")
        elif how == "died":
            made.core_died("the process ended")
        else:
            core.coming.append(b"\xc1 is no msgpack")
        turn(made)
        assert (await streams[0].get()).token_ids.tolist() == [7], "what had come is still delivered"
        for reading in (*readers, calling, streams[0].get(), made.generate([1], params()), made.call("ping")):
            with pytest.raises(EngineDead):
                await reading
        assert made.health().state == "dead" and not made.health().is_healthy
        made.core_died("the first reason counts")
        assert made.health().reason != "the first reason counts"
        for stream in streams:
            stream.close()
        assert core.aborts == []

    async def test_waiting_for_readiness_ends_too(self) -> None:
        core = ScriptedCore()
        made = AsyncEngine(core, bare_admission(), None, ManualClock(), engine(core).metrics)
        assert made.health().state == "starting"
        waiting = [asyncio.create_task(made.wait_ready()) for _ in range(2)]
        await asyncio.sleep(0)
        made.core_died("could not load")
        for one in (*waiting, made.wait_ready()):
            with pytest.raises(EngineDead, match="could not load"):
                await one

    async def test_readiness_wakes_everyone_who_waits_for_it(self) -> None:
        core = ScriptedCore()
        made = AsyncEngine(core, bare_admission(), None, ManualClock(), engine(ScriptedCore()).metrics)
        waiting = [asyncio.create_task(made.wait_ready()) for _ in range(2)]
        await asyncio.sleep(0)
        core.say(READY)
        turn(made)
        assert [await one for one in waiting] == [READY, READY] and await made.wait_ready() == READY
        assert made.ready == READY and made.health().is_healthy


class TestFaults:
    @pytest.mark.parametrize("harm", ["gap", "torn-logprobs"])
    async def test_a_stream_that_breaks_fails_alone(self, harm: str) -> None:
        core = ScriptedCore()
        made = engine(core)
        broken, healthy = await made.generate([1], params(n=2)), await made.generate([1], params())
        first, second = broken.requests
        wrong = {
            "gap": lambda: Delta(first, 1, 5, pack_ints([1])),
            "torn-logprobs": lambda: Delta(first, 1, 0, pack_ints([1]), logprobs=logprob_rows([], [])),
        }[harm]()
        core.output([core.delta(second, [7]), wrong, core.delta(healthy.requests[0], [8], LENGTH)])
        turn(made)
        assert (await healthy.get()).token_ids.tolist() == [8]
        assert (await broken.get()).index == 1
        with pytest.raises(EngineFault):
            await broken.get()
        assert core.aborts == [(first, second)] and is_idle(made, core)
        assert made.metrics.stream_faults.total() == 1
        healthy.close()


class TestCalls:
    async def test_a_reply_finds_its_call_whatever_the_order(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        calls = [asyncio.create_task(made.call("ping", bytes([number]))) for number in range(3)]
        await asyncio.sleep(0)
        for call in reversed(core.calls):
            core.answer(call, call.payload * 2)
        turn(made)
        assert [await call for call in calls] == [b"\0\0", b"\1\1", b"\2\2"] and is_idle(made, core)

    async def test_a_typed_error_is_raised(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        calling = asyncio.create_task(made.call("nope"))
        await asyncio.sleep(0)
        core.answer(core.calls[0], error="no such method")
        turn(made)
        with pytest.raises(EngineFault, match="no such method"):
            await calling

    async def test_no_answer_in_time_is_a_fault_and_a_late_one_is_dropped(self) -> None:
        core = ScriptedCore()
        made = engine(core)
        with pytest.raises(EngineFault, match="did not answer"):
            await made.call("ping", timeout_s=0.001)
        core.answer(core.calls[0], b"late")
        turn(made)
        assert is_idle(made, core)


class TestPump:
    async def test_what_came_while_sending_is_taken_without_another_wake(self) -> None:
        """ZMQ's descriptor is edge-triggered: after a send it may never become readable for what came before."""
        core = ScriptedCore()
        made = engine(core)
        stream = await made.generate([1], params())
        core.emit(stream.requests[0], [7])
        assert (await asyncio.wait_for(stream.get(), 1)).token_ids.tolist() == [7]

    async def test_heartbeats_reach_stats_and_liveness(self) -> None:
        core, clock = ScriptedCore(), ManualClock()
        made = engine(core, clock=clock)
        made.watch(Liveness(clock, 8.0, lambda: ProcessState("S", 1.0)))
        clock.advance(7.0)
        core.output(stats=CoreStats(running=3, steps=9))
        turn(made)
        assert made.stats.running == 3
        clock.advance(7.0)
        assert made.health().is_healthy
        clock.advance(2.0)
        assert made.health().state == "stalled"
        await made.close()


class TestText:
    async def test_encode_decode_and_bytes_are_the_tokenizers(self) -> None:
        made = engine(ScriptedCore())
        ids = made.encode("the fox")
        assert made.decode(ids) == "the fox" == made.decode(ids.tolist())
        assert made.token_bytes(ids[0]) == tokenizer().token_bytes(ids[0])
        assert made.token_bytes(1) == b"<|im_start|>" and made.encode("") == array("i")

    @pytest.mark.parametrize("ids", [[-1], [10**6], [True], ["1"]])
    async def test_decode_refuses_what_is_no_token(self, ids: list[int]) -> None:
        with pytest.raises(ClientError) as caught:
            engine(ScriptedCore()).decode(ids)
        assert caught.value.param == "tokens"

    async def test_without_a_tokenizer_text_is_refused_in_words(self) -> None:
        made = engine(ScriptedCore(), bare_admission())
        for act in (lambda: made.encode("x"), lambda: made.decode([1]), lambda: made.token_bytes(1)):
            with pytest.raises(ClientError, match="no tokenizer"):
                act()
        with pytest.raises(ClientError, match="no tokenizer"):
            await made.encode_chat([{"role": "user", "content": "x"}])

    @pytest.mark.parametrize("length", [1, 10 * INLINE_CHARS])
    async def test_chat_is_the_templates_tokens_short_or_long(self, length: int) -> None:
        made = engine(ScriptedCore(), admission(max_model_len=50_000))
        ids = await made.encode_chat([{"role": "user", "content": "x" * length}])
        text = f"<|im_start|>user\n{'x' * length}<|im_end|>\n<|im_start|>assistant\n"
        assert made.decode(ids) == text and ids[0] == 1

    async def test_a_chat_that_cannot_fit_is_refused_before_its_template_is_written(self) -> None:
        made = engine(ScriptedCore())
        with pytest.raises(PromptTooLong, match="at least"):
            await made.encode_chat([{"role": "user", "content": "x" * 10 * INLINE_CHARS}])

    async def test_template_variables_do_not_replace_fields(self) -> None:
        with pytest.raises(ClientError) as caught:
            await engine(ScriptedCore()).encode_chat([], template_kwargs={"messages": []})
        assert caught.value.param == "chat_template_kwargs"

    async def test_a_long_prompt_is_tokenized_off_the_loop(self) -> None:
        core = ScriptedCore()
        made = engine(core, admission(max_model_len=20_000, max_token_bytes=0))
        text = "the fox " * INLINE_CHARS
        loop_turns = 0

        async def count() -> None:
            nonlocal loop_turns
            while not core.submits:
                loop_turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        stream = await made.generate(text, params())
        await counting
        assert stream.prompt_token_ids == tokenizer().encode(text) and loop_turns > 1
        stream.close()


Act = Callable[[AsyncEngine, ScriptedCore], Awaitable[object]]


async def short_prompt(made: AsyncEngine, core: ScriptedCore) -> None:
    async with await made.generate("the fox", params(n=2)) as stream:
        await gathered(stream)


async def long_prompt(made: AsyncEngine, core: ScriptedCore) -> None:
    async with await made.generate("the fox " * 400, params()) as stream:
        await gathered(stream)


async def with_timeout(made: AsyncEngine, core: ScriptedCore) -> None:
    """The stream may be lost between the inner task's end and the outer one's."""
    stream = await asyncio.wait_for(made.generate("the fox " * 400, params()), 5)
    async with stream:
        await gathered(stream)


async def chat(made: AsyncEngine, core: ScriptedCore) -> None:
    ids = await made.encode_chat([{"role": "user", "content": "the fox " * 400}])
    async with await made.generate(ids, params()) as stream:
        await gathered(stream)


async def call(made: AsyncEngine, core: ScriptedCore) -> None:
    await made.call("ping")


@asynccontextmanager
async def answering(made: AsyncEngine, core: ScriptedCore) -> AsyncIterator[None]:
    """A core that gives every running request a token each turn of the loop, eight to a request."""

    async def answer() -> None:
        while True:
            deltas = [
                core.delta(request, [7], LENGTH if core.starts[request] == 7 else None) for request in [*core.running]
            ]
            for message in core.calls:
                core.answer(message)
            core.output(deltas)
            made.pump()
            await asyncio.sleep(0)

    task = asyncio.create_task(answer())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("act", [short_prompt, long_prompt, with_timeout, chat, call])
async def test_DIS_07_cancelled_at_any_point_nothing_stays_in_the_core(act: Act) -> None:
    """The task is cancelled after k turns of the loop, for every k until it ends by itself."""
    core = ScriptedCore()
    made = engine(core, admission(max_model_len=4096, max_token_bytes=0))
    was_cancelled = was_finished = 0
    async with answering(made, core):
        for turns in range(400):
            task = asyncio.create_task(act(made, core))  # type: ignore[arg-type]
            for _ in range(turns):
                if task.done():
                    break
                await asyncio.sleep(0)
            was_finished += task.done()
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                was_cancelled += 1
            for _ in range(3):
                await asyncio.sleep(0)
            assert is_idle(made, core), f"after {turns} turns"
            if was_finished > 3:
                break
    assert was_cancelled and was_finished
    submitted, aborted = len(core.submits), sum(map(len, core.aborts))
    assert aborted <= submitted and all(isinstance(message, Submit | Abort) for message in core.sent if act is not call)


async def test_all_defaults_are_the_models() -> None:
    made = engine(ScriptedCore(), admission(defaults=SamplingParams(temperature=0.6, top_p=0.9)))
    assert made.limits.defaults.temperature == 0.6 and made.limits.model_name == "tiny"
    assert made.limits.max_prompt_len == CONTEXT - 1
