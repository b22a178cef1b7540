"""How other engines fold chunks: dicts with list ids, rebuilt at each fold or extended in place.

Written from the fold table, not from anybody's code. Slow on purpose in nothing: what our collector is measured
against, and the truth that it must equal. `lean` leaves log probabilities and times out, as the fastest peer does.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from typing import Any

from engine.client.logprobs import count_rows, slice_rows
from engine.wire.chunk import Chunk

DictChunk = dict[str, Any]
Fold = Callable[[DictChunk, DictChunk], None]
LATEST = ("finish_reason", "kv_transfer_params", "num_cached_tokens")


def fold_facts(into: DictChunk, new: DictChunk) -> None:
    into["finished"] = bool(into.get("finished") or new.get("finished"))
    for key in LATEST:
        if new.get(key):
            into[key] = new[key]


def extend_in_place_lean(into: DictChunk, new: DictChunk) -> None:
    into["token_ids"].extend(new.get("token_ids", ()))
    text = into.pop("text", "")
    try:
        text += new.get("text", "")  # One reference only: CPython grows the string where it stands.
    finally:
        into["text"] = text
    fold_facts(into, new)


def extend_in_place(into: DictChunk, new: DictChunk) -> None:
    extend_in_place_lean(into, new)
    if (logprobs := new.get("logprobs")) is not None:
        into.setdefault("logprobs", []).extend(logprobs)
    fold_times(into, new)


def rebuild(into: DictChunk, new: DictChunk) -> None:
    into["token_ids"] = [*into["token_ids"], *new.get("token_ids", ())]
    into["text"] = into.get("text", "") + new.get("text", "")
    fold_facts(into, new)
    if (logprobs := new.get("logprobs")) is not None:
        into["logprobs"] = [*into.get("logprobs", []), *logprobs]
    fold_times(into, new)


def fold_times(into: DictChunk, new: DictChunk) -> None:
    if (first := new["first_token_time"]) < into["first_token_time"]:
        into["first_token_time"] = first
    if (last := new["last_token_time"]) > into["last_token_time"]:
        into["last_token_time"] = last


class DictCollector:
    """At most one pending dict per sibling, folded at each put."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self.pending: dict[int, DictChunk] = {}
        self.ready = asyncio.Event()

    def put_nowait(self, chunk: DictChunk) -> None:
        index = chunk["index"]
        waiting = self.pending.get(index)
        if waiting is None:
            self.pending[index] = {**chunk, "token_ids": list(chunk.get("token_ids", ()))}
        else:
            self.fold(waiting, chunk)
        self.ready.set()

    def get_nowait(self) -> DictChunk | None:
        for index in self.pending:
            self.ready.clear()
            return self.pending.pop(index)
        return None


def as_dict(chunk: Chunk) -> DictChunk:
    """The same chunk as the references take it."""
    found: DictChunk = {
        "index": chunk.index,
        "token_ids": chunk.token_ids.tolist(),
        "text": chunk.text or "",
        "finished": chunk.finished,
        "first_token_time": chunk.first_token_time,
        "last_token_time": chunk.last_token_time,
    }
    if chunk.finish_reason:
        found["finish_reason"] = chunk.finish_reason
    if chunk.num_cached_tokens is not None:
        found["num_cached_tokens"] = chunk.num_cached_tokens
    if chunk.logprobs is not None:
        found["logprobs"] = [slice_rows(chunk.logprobs, i, i + 1) for i in range(count_rows(chunk.logprobs))]
    return found


def plain_chunks(count: int, text: str = " abcd", index: int = 0) -> list[Chunk]:
    """One token and one string of its own each."""
    return [
        Chunk(index, array("i", [i]), "".join(list(text)), first_token_time=1.0 + i, last_token_time=1.0 + i)
        for i in range(count)
    ]
