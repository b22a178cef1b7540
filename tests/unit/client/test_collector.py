"""The hand-off between a step and a reader: what waits, what folds, what is refused, how it ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from array import array
from collections.abc import Callable

import pytest

from engine.base.errors import EngineDead, EngineFault
from engine.client.collector import StreamOutputCollector
from engine.client.fold import PendingChunk, merge_chunk
from engine.wire.chunk import Chunk
from engine.wire.output import LogprobRows
from tests.fakes.scripted_core import logprob_rows


def chunk(*tokens: int, index: int = 0, text: str | None = None, **facts: object) -> Chunk:
    return Chunk(index, array("i", tokens), text, **facts)  # type: ignore[arg-type]


def rows(*tokens: int) -> LogprobRows:
    return logprob_rows([[(token, -1.0), (token + 1, -2.0)] for token in tokens], [1] * len(tokens))


def test_a_chunk_that_waits_alone_comes_out_as_the_object_that_was_put() -> None:
    collector, one = StreamOutputCollector(), chunk(1)
    collector.put_nowait(one)
    assert collector.get_nowait() is one
    assert collector.get_nowait() is None


def test_chunks_that_wait_come_out_as_one() -> None:
    collector = StreamOutputCollector()
    for number, text in enumerate("abc"):
        collector.put_nowait(chunk(number, text=text, first_token_time=number + 1.0, last_token_time=number + 1.5))
    folded = collector.get_nowait()
    assert folded == chunk(0, 1, 2, text="abc", first_token_time=1.0, last_token_time=3.5)


def test_a_taken_chunk_does_not_grow_when_more_come() -> None:
    collector = StreamOutputCollector()
    for number in range(3):
        collector.put_nowait(chunk(number, text="x"))
    taken = collector.get_nowait()
    for number in range(3):
        collector.put_nowait(chunk(number, text="y"))
    assert taken is not None and taken.token_ids.tolist() == [0, 1, 2] and taken.text == "xxx"


def test_siblings_are_never_mixed_and_the_longest_waiting_comes_first() -> None:
    collector = StreamOutputCollector(3)
    for index, token in [(2, 20), (0, 0), (2, 21), (1, 10), (0, 1), (2, 22)]:
        collector.put_nowait(chunk(token, index=index))
    taken = [collector.get_nowait() for _ in range(3)]
    assert [(one.index, one.token_ids.tolist()) for one in taken if one] == [(2, [20, 21, 22]), (0, [0, 1]), (1, [10])]


@pytest.mark.parametrize("depth", [1, 2, 3, 64, 65, 200])
def test_the_producers_arrays_are_neither_changed_nor_kept(depth: int) -> None:
    collector = StreamOutputCollector()
    made = [chunk(number, number, text="t", logprobs=rows(number, number)) for number in range(depth)]
    for one in made:
        collector.put_nowait(one)
    folded = collector.get_nowait()
    assert [one.token_ids.tolist() for one in made] == [[number, number] for number in range(depth)]
    if folded is not None and depth > 1:
        folded.token_ids.append(-99)
        assert all(-99 not in one.token_ids for one in made)


def test_text_that_nobody_decoded_stays_unknown_and_some_counts_as_all() -> None:
    collector = StreamOutputCollector()
    for text in (None, None, None):
        collector.put_nowait(chunk(1, text=text))
    assert (folded := collector.get_nowait()) is not None and folded.text is None
    for text in (None, "a", None, "", "b"):
        collector.put_nowait(chunk(1, text=text))
    assert (folded := collector.get_nowait()) is not None and folded.text == "ab"


def test_the_latest_fact_that_says_something_wins() -> None:
    collector = StreamOutputCollector()
    collector.put_nowait(chunk(1, num_cached_tokens=4, finish_reason="length"))
    collector.put_nowait(chunk(2, num_cached_tokens=8))
    collector.put_nowait(chunk(3, finish_reason="stop", stop_reason=7, finished=True))
    assert collector.get_nowait() == chunk(
        1, 2, 3, num_cached_tokens=8, finish_reason="stop", stop_reason=7, finished=True
    )


def test_facts_do_not_leak_into_the_next_chunk() -> None:
    collector = StreamOutputCollector()
    for one in (chunk(1, num_cached_tokens=4, text="a"), chunk(2, text="b")):
        collector.put_nowait(one)
    collector.get_nowait()
    for token in (3, 4):
        collector.put_nowait(chunk(token))
    assert collector.get_nowait() == chunk(3, 4)


@pytest.mark.parametrize("coalesced", range(1, 70, 17))
def test_LGP_09_log_probabilities_stay_aligned_with_the_tokens_however_many_fold(coalesced: int) -> None:
    collector = StreamOutputCollector()
    for number in range(coalesced):
        collector.put_nowait(chunk(2 * number, 2 * number + 1, logprobs=rows(2 * number, 2 * number + 1)))
    folded = collector.get_nowait()
    assert folded is not None and folded.token_ids.tolist() == list(range(2 * coalesced))
    assert folded.logprobs == rows(*range(2 * coalesced))


class TestMalformed:
    """A malformed chunk raises, and what waits is then exactly as it was."""

    WRONG: dict[str, Callable[[], object]] = {
        "list-of-ids": lambda: Chunk(0, [1], "x"),
        "array-of-longs": lambda: Chunk(0, array("q", [1]), "x"),
        "array-of-floats": lambda: Chunk(0, array("f", [1.0]), None),
        "no-ids": lambda: Chunk(0, None, "x"),
        "bytes-as-text": lambda: Chunk(0, array("i", [1]), b"x"),
        "unknown-sibling": lambda: Chunk(5, array("i", [1]), "x"),
        "negative-sibling": lambda: Chunk(-1, array("i", [1]), "x"),
        "no-sibling": lambda: Chunk(None, array("i", [1]), "x"),
        "unhashable-sibling": lambda: Chunk([], array("i", [1]), "x"),
        "a-dict": lambda: {"index": 0, "token_ids": [1], "text": "x"},
        "nothing": lambda: None,
        "fewer-logprobs": lambda: Chunk(0, array("i", [1, 2]), "x", logprobs=rows(1)),
        "torn-logprobs": lambda: Chunk(0, array("i", [1]), "x", logprobs=LogprobRows(2, b"1234", b"", b"1234")),
        "logprobs-out-of-the-blue": lambda: Chunk(0, array("i", [1]), "x", logprobs=rows(1)),
    }

    @pytest.mark.parametrize("waiting", [0, 1, 2, 3, 70])
    @pytest.mark.parametrize("wrong", WRONG)
    def test_leaves_what_waits_as_it_was(self, wrong: str, waiting: int) -> None:
        collector = StreamOutputCollector(2)
        for number in range(waiting):
            collector.put_nowait(chunk(number, text="t"))
        if wrong == "logprobs-out-of-the-blue" and not waiting:
            return
        with pytest.raises(EngineFault):
            collector.put_nowait(self.WRONG[wrong]())  # type: ignore[arg-type]
        collector.put_nowait(chunk(99, text="!"))
        folded = collector.get_nowait()
        assert folded == chunk(*range(waiting), 99, text="t" * waiting + "!")

    @pytest.mark.parametrize("waiting", [1, 2, 70])
    def test_tokens_without_log_probabilities_in_a_stream_that_has_them(self, waiting: int) -> None:
        collector = StreamOutputCollector()
        for number in range(waiting):
            collector.put_nowait(chunk(number, logprobs=rows(number)))
        wider = logprob_rows([[(1, -1.0), (2, -2.0), (3, -3.0)]], [1])
        for wrong in (chunk(1), chunk(1, logprobs=wider)):
            with pytest.raises(EngineFault):
                collector.put_nowait(wrong)
        folded = collector.get_nowait()
        assert folded is not None and folded.logprobs == rows(*range(waiting))

    def test_merge_chunk_refuses_what_is_not_the_collectors_own(self) -> None:
        for foreign in (chunk(1), PendingChunk(0), {}):
            with pytest.raises(EngineFault):
                merge_chunk(foreign, chunk(2))  # type: ignore[arg-type]

    def test_merge_chunk_refuses_another_siblings_chunk(self) -> None:
        collector = StreamOutputCollector(2)
        collector.put_nowait(chunk(1))
        with pytest.raises(EngineFault):
            merge_chunk(collector.pending[0], chunk(2, index=1))


@pytest.mark.parametrize("waiting", [0, 1, 2, 5])
def test_DIS_12_a_chunk_after_the_last_one_is_counted_and_not_appended(waiting: int) -> None:
    collector = StreamOutputCollector(2)
    for number in range(waiting):
        collector.put_nowait(chunk(number, text="t"))
    collector.put_nowait(chunk(9, finished=True, finish_reason="stop"))
    collector.put_nowait(chunk(10, text="late"))
    folded = collector.get_nowait()
    collector.put_nowait(chunk(11, text="late"))
    collector.put_nowait(chunk(12, finished=True))
    assert collector.late_chunks == 3 and collector.get_nowait() is None
    assert folded is not None and folded.token_ids.tolist() == [*range(waiting), 9] and folded.finish_reason == "stop"
    collector.put_nowait(chunk(1, index=1))
    assert (other := collector.get_nowait()) is not None and other.index == 1


class TestReader:
    async def test_wakes_when_a_chunk_comes(self) -> None:
        collector = StreamOutputCollector()
        reading = asyncio.create_task(collector.get())
        await asyncio.sleep(0)
        collector.put_nowait(chunk(1))
        collector.put_nowait(chunk(2))
        assert (await reading).token_ids.tolist() == [1, 2]

    async def test_gets_what_waits_before_the_failure(self) -> None:
        collector = StreamOutputCollector(2)
        collector.put_nowait(chunk(1))
        collector.fail(EngineDead("gone"))
        collector.fail(EngineFault("a second failure says nothing new"))
        assert (await collector.get()).token_ids.tolist() == [1]
        with pytest.raises(EngineDead):
            await collector.get()

    async def test_wakes_when_the_stream_fails(self) -> None:
        collector = StreamOutputCollector()
        reading = asyncio.create_task(collector.get())
        await asyncio.sleep(0)
        collector.fail(EngineDead("gone"))
        with pytest.raises(EngineDead):
            await reading

    async def test_wakes_when_the_stream_is_closed_from_elsewhere(self) -> None:
        collector = StreamOutputCollector()
        reading = asyncio.create_task(collector.get())
        await asyncio.sleep(0)
        collector.close()
        with pytest.raises(EngineFault):
            await reading

    async def test_a_cancelled_read_loses_nothing(self) -> None:
        collector = StreamOutputCollector()
        reading = asyncio.create_task(collector.get())
        await asyncio.sleep(0)
        collector.put_nowait(chunk(1))
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert (await collector.get()).token_ids.tolist() == [1]

    async def test_two_readers_are_a_fault(self) -> None:
        collector = StreamOutputCollector()
        reading = asyncio.create_task(collector.get())
        await asyncio.sleep(0)
        with pytest.raises(EngineFault):
            await collector.get()
        reading.cancel()

    async def test_reading_on_after_the_end_is_a_fault_not_a_hang(self) -> None:
        collector = StreamOutputCollector()
        collector.put_nowait(chunk(1, finished=True))
        await collector.get()
        assert collector.is_done
        with pytest.raises(EngineFault):
            await collector.get()

    def test_a_failure_after_the_end_is_nobodys(self) -> None:
        collector = StreamOutputCollector()
        collector.put_nowait(chunk(1, finished=True))
        collector.get_nowait()
        collector.fail(EngineDead("gone"))
        assert collector.get_nowait() is None


def test_close_lets_go_of_everything_and_drops_what_still_comes() -> None:
    collector = StreamOutputCollector(2)
    for number in range(5):
        collector.put_nowait(chunk(number, text="t"))
    collector.close()
    collector.close()
    collector.put_nowait(chunk(6, text="t"))
    assert collector.get_nowait() is None and not collector.pending and collector.is_done


def test_the_collector_imports_no_tokenizer_and_no_socket() -> None:
    unwanted = {"tokenizers", "zmq", "jinja2", "torch"}
    code = f"import sys, engine.client.collector; print(sorted({unwanted} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
