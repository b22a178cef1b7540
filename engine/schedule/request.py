"""A request while this core knows it: its tokens, how far they are computed, and where it stands.

Knows nothing of other requests.
"""

from __future__ import annotations

from enum import IntEnum

from engine.cache import BlockTable, KvCache
from engine.schedule.policy import Key
from engine.wire.output import Delta, Failed, FinishReason, LogprobRows
from engine.wire.request import Submit
from engine.wire.tokens import unpack


class State(IntEnum):
    """WAITING: holds nothing. RUNNING: holds a slot and blocks. GONE: has had its terminal output."""

    WAITING = 1
    RUNNING = 2
    GONE = 3


MOVES = {
    State.WAITING: {State.RUNNING, State.GONE},
    State.RUNNING: {State.WAITING, State.GONE},
    State.GONE: frozenset[State](),
}


class Request:
    """token_ids: prompt plus answer, the only list of them in this process; the block table reads the same array.

    key: its place in policy order. length_limit: tokens at which it ends with LENGTH. computed: leading tokens
    whose keys and values stand in its blocks. num_scored: leading tokens whose prompt logprobs have been sent.
    """

    __slots__ = (
        "attempt",
        "computed",
        "has_spoken",
        "id",
        "key",
        "leader",
        "length_limit",
        "num_prompt",
        "num_scored",
        "sampling",
        "slot",
        "state",
        "table",
        "token_ids",
    )

    def __init__(self, submit: Submit, key: Key, cache: KvCache, max_model_len: int) -> None:
        self.id = submit.request
        self.attempt = submit.attempt
        self.key = key
        self.leader = submit.leader
        self.sampling = submit.sampling
        self.token_ids = unpack(submit.tokens)
        self.num_prompt = submit.num_prompt
        self.length_limit = min(submit.num_prompt + submit.sampling.max_tokens, max_model_len)
        self.table: BlockTable = cache.table(self.token_ids, submit.cache_salt)
        self.state = State.WAITING
        self.slot = -1
        self.computed = 0
        self.num_scored = 1
        self.has_spoken = False

    def move(self, state: State) -> None:
        assert state in MOVES[self.state], f"a request never moves from {self.state.name} to {state.name}"
        self.state = state

    @property
    def num_uncomputed(self) -> int:
        """What the request asks of a step. There is no prefill and no decode: only tokens that are not computed."""
        return len(self.token_ids) - self.computed

    @property
    def lacks_blocks(self) -> bool:
        return len(self.token_ids) > self.table.room

    @property
    def num_output(self) -> int:
        return len(self.token_ids) - self.num_prompt

    @property
    def is_full_length(self) -> bool:
        return len(self.token_ids) >= self.length_limit

    @property
    def has_prompt(self) -> bool:
        """Whether its whole prompt stands in its blocks."""
        return self.computed >= self.num_prompt

    @property
    def may_reuse(self) -> bool:
        """Whether cached blocks will do: not while logprobs of the prompt are owed, which come of computing it."""
        return self.sampling.prompt_logprobs is None or self.num_scored >= self.num_prompt

    def delta(
        self,
        start: int,
        tokens: bytes,
        finish: FinishReason | None = None,
        logprobs: LogprobRows | None = None,
        prompt_logprobs: LogprobRows | None = None,
    ) -> Delta:
        """The request's next word to its client; the first one tells how much of the prompt was cached."""
        num_cached = 0 if self.has_spoken else min(self.table.num_cached or 0, self.num_prompt)
        self.has_spoken = True
        return Delta(self.id, self.attempt, start, tokens, finish, num_cached, logprobs, prompt_logprobs)

    def failed(self, message: str, status: int) -> Failed:
        return Failed(self.id, self.attempt, message, status)
