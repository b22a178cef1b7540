"""What the worker keeps of each slot: its tokens, how far they are computed, its blocks, how it samples.

Owns the columns, one row a slot. Knows no plan and no model; a word of the core that contradicts them is a fault.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import EngineFault
from engine.kernels.batch import Int32
from engine.sampling.sampler import Sampler
from engine.wire.step import Admit
from engine.wire.tokens import unpack


class Rows:
    """Slots 0 .. max_num_seqs - 1. The big columns are zero pages of the operating system until they are used."""

    def __init__(self, max_num_seqs: int, max_model_len: int, block_size: int) -> None:
        self.max_model_len = max_model_len
        self.block_size = block_size
        max_blocks = -(-(max_model_len + 1) // block_size)
        # One token more than the context: the last one drawn is kept, though it is never run.
        self.token_ids = np.zeros((max_num_seqs, max_model_len + 1), dtype=np.int32)
        self.block_tables = np.zeros((max_num_seqs, max_blocks), dtype=np.int32)
        self.num_tokens = np.zeros(max_num_seqs, dtype=np.int32)
        self.num_prompt = np.zeros(max_num_seqs, dtype=np.int32)
        self.num_computed = np.zeros(max_num_seqs, dtype=np.int32)
        """The frontier: tokens whose K and V stand in the cache."""
        self.num_blocks = np.zeros(max_num_seqs, dtype=np.int32)
        self.samplers: list[Sampler | None] = [None] * max_num_seqs
        self.prompt_logits = np.zeros(max_num_seqs, dtype=np.int32)
        """Positions from 0 whose logits speak of a prompt token, where prompt_logprobs are asked for; else 0."""

    def admit(self, admit: Admit) -> None:
        """Raises EngineFault when the slot is taken or does not exist, or its tokens or blocks do not fit in it."""
        slot = admit.slot
        tokens, blocks = column(admit.tokens), column(admit.blocks)
        check(0 <= slot < len(self.samplers), "slot does not exist", slot)
        check(self.samplers[slot] is None, "slot is taken", slot)
        check(0 < len(tokens) < self.token_ids.shape[1], "tokens do not fit the context", slot)
        check(0 < admit.num_prompt <= len(tokens), "num_prompt is not within the tokens", slot)
        check(0 <= admit.computed < len(tokens), "computed leaves no token to run", slot)
        check(len(blocks) <= self.block_tables.shape[1], "more blocks than a context has", slot)
        check(len(blocks) * self.block_size >= admit.computed, "computed tokens without a block", slot)
        self.token_ids[slot, : len(tokens)] = tokens
        self.block_tables[slot, : len(blocks)] = blocks
        self.num_tokens[slot] = len(tokens)
        self.num_prompt[slot] = admit.num_prompt
        self.num_computed[slot] = admit.computed
        self.prompt_logits[slot] = 0 if admit.sampling.prompt_logprobs is None else admit.num_prompt - 1
        self.num_blocks[slot] = len(blocks)
        self.samplers[slot] = Sampler(admit.sampling, admit.num_prompt)

    def release(self, slots: Int32) -> None:
        """Forgets the slots. Raises EngineFault when one is free already."""
        for slot in slots.tolist():
            self.sampler(slot)
            self.samplers[slot] = None
            self.block_tables[slot] = 0  # a batch pads its tables with 0
            self.num_tokens[slot] = 0  # a row of the slot would run tokens that are not there

    def clear(self) -> None:
        """Forgets all slots."""
        self.release(np.array([slot for slot, sampler in enumerate(self.samplers) if sampler], dtype=np.int32))

    def add_blocks(self, pairs: Int32) -> None:
        """pairs: [k, 2], (slot, block), each appended to its slot's table."""
        for slot, block in pairs.tolist():
            self.sampler(slot)
            held = self.num_blocks[slot]
            check(held < self.block_tables.shape[1], "more blocks than a context has", slot)
            self.block_tables[slot, held] = block
            self.num_blocks[slot] += 1

    def append(self, slots: Int32, tokens: Int32) -> None:
        """One drawn token for each of these different slots."""
        ends = self.num_tokens[slots]
        if len(ends) and ends.max() >= self.token_ids.shape[1]:
            raise EngineFault(f"slot {slots[int(ends.argmax())]} outgrew the context")
        self.token_ids[slots, ends] = tokens
        self.num_tokens[slots] = ends + 1

    def sampler(self, slot: int) -> Sampler:
        """Raises EngineFault when nothing runs in the slot."""
        sampler = self.samplers[slot] if 0 <= slot < len(self.samplers) else None
        if sampler is None:
            raise EngineFault(f"slot {slot} is not in use")
        return sampler

    def tokens(self, slot: int) -> Int32:
        """Prompt plus answer so far: a view that ends at the tokens known now."""
        return self.token_ids[slot, : self.num_tokens[slot]]

    def num_running(self) -> int:
        return sum(sampler is not None for sampler in self.samplers)


def column(data: bytes) -> Int32:
    """int32 wire bytes -> [n], a fresh array."""
    return np.array(unpack(data), dtype=np.int32)


def flags(data: bytes) -> NDArray[np.bool_]:
    """uint8 wire bytes -> [n]"""
    return np.frombuffer(data, dtype=np.uint8).astype(np.bool_)


def check(holds: bool, message: str, slot: int) -> None:
    """The core and the worker disagree about a slot: nothing that follows could be trusted."""
    if not holds:
        raise EngineFault(f"{message} (slot {slot})")
