"""worker -> core, once: what the worker found and chose while it loaded the model."""

from __future__ import annotations

from msgspec import Struct


class WorkerReady(Struct, frozen=True, array_like=True):
    """num_blocks: KV blocks that fit. chosen: what was picked automatically, and why, for the start-up lines."""

    num_blocks: int
    block_size: int
    max_model_len: int
    vocab_size: int
    chosen: dict[str, str] = {}
