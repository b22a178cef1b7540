"""Chunk: a piece of one stream on its way from the core's message to the socket or the caller.

Owns the shape; how chunks fold into one is client/collector's.
"""

from __future__ import annotations

from array import array

from msgspec import Struct

from engine.wire.output import LogprobRows


class Chunk(Struct, gc=False):
    """New tokens of sibling `index`, and what became known with them. Once put into a collector it never changes.

    text None: nobody has decoded these tokens yet. finish_reason: "stop", "length" or "abort" on the last chunk.
    stop_reason: the stop string or the stop token id that ended the answer, where one did. Times: monotonic seconds.
    """

    index: int
    token_ids: array[int]
    text: str | None = None
    finished: bool = False
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: LogprobRows | None = None
    num_cached_tokens: int | None = None
    first_token_time: float = 0.0
    last_token_time: float = 0.0
