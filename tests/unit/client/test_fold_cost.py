"""What folding costs beside both reference behaviours, in one interleaved run; and what a deep backlog holds.

Bounds are loose, so that a busy machine does not fail them; asv_bench has the numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import thread_time_ns
from typing import Protocol

import pytest

from engine.client.collector import StreamOutputCollector
from tests.oracles.merge_reference import DictCollector, as_dict, extend_in_place, plain_chunks, rebuild


class Collector(Protocol):
    def put_nowait(self, chunk: object) -> None: ...

    def get_nowait(self) -> object: ...


Make = tuple[Callable[[], Collector], Callable[[int], list[object]]]


def dicts(count: int) -> list[object]:
    return [as_dict(chunk) for chunk in plain_chunks(count)]


CONTENDERS: dict[str, Make] = {
    "ours": (StreamOutputCollector, plain_chunks),  # type: ignore[dict-item]
    "in place": (lambda: DictCollector(extend_in_place), dicts),
    "rebuilt": (lambda: DictCollector(rebuild), dicts),
}


def cycle_ns(make: Make, depth: int, sets: int) -> float:
    """Thread time per chunk of the whole cycle: put depth + 1, take once."""
    ready = [(make[0](), make[1](depth + 1)) for _ in range(sets)]
    started = thread_time_ns()
    for collector, chunks in ready:
        put = collector.put_nowait
        for chunk in chunks:
            put(chunk)
        collector.get_nowait()
    return (thread_time_ns() - started) / (sets * (depth + 1))


def best_of(names: list[str], depth: int, rounds: int = 15) -> dict[str, float]:
    """The contenders take turns, so that a busy spell hits all of them."""
    sets = max(1, 600 // (depth + 1))
    turns = [{name: cycle_ns(CONTENDERS[name], depth, sets) for name in names} for _ in range(rounds)]
    return {name: min(turn[name] for turn in turns) for name in names}


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_shallow_folds_are_not_slower_than_the_better_reference(depth: int) -> None:
    """Depth 1 to 2 is the common case: a design that wins only on deep backlogs is no use."""
    best = best_of(list(CONTENDERS), depth)
    assert best["ours"] < 1.15 * min(best["in place"], best["rebuilt"]), best


@pytest.mark.parametrize("depth", [17, 100, 500])
def test_deep_folds_cost_a_fraction_of_extending_in_place(depth: int) -> None:
    best = best_of(["ours", "in place"], depth)
    assert best["ours"] < best["in place"] / 1.8, best


def test_a_chunk_costs_the_same_at_any_depth() -> None:
    deep, shallow = best_of(["ours"], 5000, rounds=8), best_of(["ours"], 64)
    assert deep["ours"] < 1.5 * shallow["ours"], (deep, shallow)


def test_a_deep_backlog_holds_no_object_per_token() -> None:
    """At most 64 unfolded parts; beyond them 4 bytes a token, and one string per 64 tokens."""
    collector, depth = StreamOutputCollector(), 20_000
    for number in range(depth):
        for chunk in plain_chunks(1, f"{number:05d}"):
            collector.put_nowait(chunk)
    pending = collector.pending[0]
    assert pending.ids is not None and len(pending.ids) == depth
    assert len(pending.texts) <= 64 and len(pending.text_blocks) <= depth / 64 + 1
    held = [pending.ids, pending.texts, pending.text_blocks, *pending.texts, *pending.text_blocks]
    assert sum(map(sys.getsizeof, held)) < (16 + 5) * depth
