"""How chunks of one sibling fold into one: merge_chunk and the PendingChunk it folds into.

The rules stand in add_facts. Nothing here rebuilds what it has gathered: every part is copied twice, at any depth.
"""

from __future__ import annotations

from array import array

from engine.base.errors import EngineFault
from engine.client.logprobs import count_rows, join_rows
from engine.wire.chunk import Chunk
from engine.wire.output import LogprobRows

COMPACT_AT = 64
"""Most parts that wait unjoined: a deep backlog holds no object per token."""


class PendingChunk:
    """What waits for the reader of one sibling: the first chunk as it came and, once more follow, columns of ours.

    first None: nothing waits. ids None: nothing is folded yet, `first` is all. open_ids: `ids` again while a chunk of
    tokens and text alone may be appended at once; None sends the next chunk through merge_chunk.
    Slotted, not a Struct: a store to a Struct's field costs three times as much, and there is one per sibling only.
    """

    __slots__ = (
        "finish_reason",
        "first",
        "ids",
        "index",
        "is_finished",
        "last_token_time",
        "logprob_blocks",
        "logprobs",
        "num_cached_tokens",
        "open_ids",
        "stop_reason",
        "text_blocks",
        "texts",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.is_finished = False
        self.first: Chunk | None = None
        self.ids: array[int] | None = None
        self.open_ids: array[int] | None = None
        self.texts: list[str] = []
        self.text_blocks: list[str] = []
        self.logprobs: list[LogprobRows] = []
        self.logprob_blocks: list[LogprobRows] = []
        self.finish_reason: str | None = None
        self.stop_reason: int | str | None = None
        self.num_cached_tokens: int | None = None
        self.last_token_time = 0.0

    def take(self) -> Chunk:
        """Everything that waits, as one chunk; afterwards nothing does. O(what waits)."""
        first, ids = self.first, self.ids
        assert first is not None
        self.first = None
        if ids is None:
            return first
        texts = self.text_blocks + self.texts if self.text_blocks else self.texts
        logprobs = join_rows(self.logprob_blocks + self.logprobs) if self.logprobs else None
        self.ids = self.open_ids = None
        self.texts = []
        if self.text_blocks or self.logprobs:
            self.text_blocks, self.logprobs, self.logprob_blocks = [], [], []
        return Chunk(
            self.index,
            ids,
            "".join(texts) if texts else None,
            self.is_finished,
            self.finish_reason,
            self.stop_reason,
            logprobs,
            self.num_cached_tokens,
            first.first_token_time,
            self.last_token_time,
        )

    def start_folding(self, first: Chunk) -> None:
        """`first` is no longer alone: its tokens are copied, once, to where more can be appended."""
        self.ids = first.token_ids[:]
        self.finish_reason = self.stop_reason = self.num_cached_tokens = None
        self.add_facts(first)

    def fold_pair(self, first: Chunk, chunk: Chunk) -> None:
        """start_folding and the second chunk at once, where neither has log probabilities and only `first` facts.

        Raises TypeError, and changes nothing, where the tokens or the text are of another type.
        """
        ids = first.token_ids + chunk.token_ids
        if first.text is None:
            texts = [] if chunk.text is None else [chunk.text + ""]
        else:
            texts = [first.text if chunk.text is None else first.text + chunk.text]
        self.ids = self.open_ids = ids
        self.texts = texts
        self.finish_reason = first.finish_reason
        self.stop_reason = first.stop_reason
        self.num_cached_tokens = first.num_cached_tokens
        self.last_token_time = chunk.last_token_time

    def add_facts(self, chunk: Chunk) -> None:
        """Texts and log probabilities are appended; of the other facts the latest that says something wins."""
        if chunk.text is not None:
            self.texts.append(chunk.text)
            if len(self.texts) >= COMPACT_AT:
                self.compact_texts()
        if chunk.logprobs is not None:
            self.logprobs.append(chunk.logprobs)
            if len(self.logprobs) >= COMPACT_AT:
                self.compact_logprobs()
        if chunk.finish_reason:
            self.finish_reason = chunk.finish_reason
        if chunk.stop_reason is not None:
            self.stop_reason = chunk.stop_reason
        if chunk.num_cached_tokens is not None:
            self.num_cached_tokens = chunk.num_cached_tokens
        self.last_token_time = chunk.last_token_time
        self.is_finished = chunk.finished

    def compact_texts(self) -> None:
        self.text_blocks.append("".join(self.texts))
        self.texts.clear()

    def compact_logprobs(self) -> None:
        if (block := join_rows(self.logprobs)) is not None:
            self.logprob_blocks.append(block)
        self.logprobs.clear()

    def num_tokens(self) -> int:
        if self.ids is not None:
            return len(self.ids)
        return 0 if self.first is None else len(self.first.token_ids)

    def some_logprobs(self) -> LogprobRows | None:
        """Any of the log probabilities that wait: all have one width."""
        if self.ids is None:
            return None if self.first is None else self.first.logprobs
        known = self.logprobs or self.logprob_blocks
        return known[0] if known else None


def merge_chunk(pending: PendingChunk, chunk: Chunk) -> None:
    """Folds one more chunk into what waits. The chunk is neither changed nor kept.

    Raises EngineFault, and changes nothing, where the chunk is malformed or `pending` is not a collector's own.
    """
    if type(pending) is not PendingChunk or pending.first is None:
        raise EngineFault("merge_chunk folds into a collector's own pending chunk only")
    check_chunk(chunk)
    if chunk.index != pending.index or pending.is_finished:
        raise EngineFault("a chunk of another sibling, or after the last one")
    check_logprobs_continue(pending, chunk)
    if pending.ids is None:
        pending.start_folding(pending.first)
    assert pending.ids is not None
    pending.ids += chunk.token_ids
    pending.add_facts(chunk)
    is_plain = chunk.logprobs is None and pending.some_logprobs() is None and not chunk.finished
    pending.open_ids = pending.ids if is_plain else None


def check_chunk(chunk: Chunk) -> None:
    """What annotations cannot promise of something that another room built. Raises EngineFault."""
    if type(chunk) is not Chunk:
        raise EngineFault("a chunk that is none")
    ids = chunk.token_ids
    if type(ids) is not array or ids.typecode != "i":
        raise EngineFault("a chunk whose token_ids are no int32 array")
    if chunk.text is not None and type(chunk.text) is not str:
        raise EngineFault("a chunk whose text is no string")
    if chunk.logprobs is not None and count_rows(chunk.logprobs) != len(ids):
        raise EngineFault("a chunk with more or fewer log probabilities than tokens")


def check_logprobs_continue(pending: PendingChunk, chunk: Chunk) -> None:
    """Either every token of a stream comes with log probabilities, all of one width, or none does."""
    if not pending.num_tokens() or not len(chunk.token_ids):
        return
    before, now = pending.some_logprobs(), chunk.logprobs
    if (before is None) != (now is None):
        raise EngineFault("log probabilities for a part of a stream's tokens")
    if before is not None and now is not None and before.width != now.width:
        raise EngineFault("log probabilities of different widths in one stream")
