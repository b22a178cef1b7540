"""The batch record: what the kernels of one step read, as numpy columns in a pinned order.

Owns the shapes and dtypes. Knows no torch, no device and no request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StepBatch:
    """S sequences with T rows (query tokens) among them; L rows of logits are wanted. Rows stand sequence by sequence.

    A step without sequences is legal (S = T = L = 0, query_starts = [0]): the dummy step of a rank with nothing to do.
    """

    token_ids: Int32
    """[T]"""
    positions: Int32
    """[T], from 0 in each sequence."""
    query_starts: Int32
    """[S + 1]; the rows of sequence s are query_starts[s] : query_starts[s + 1], never none."""
    context_lens: Int32
    """[S], tokens of the sequence in the cache after this step; its last row is at position context_lens[s] - 1."""
    block_tables: Int32
    """[S, max_blocks], padded with 0; entry i holds positions i * block_size and up."""
    slot_mapping: Int64
    """[T], block * block_size + offset: where each row's K and V are written."""
    logits_rows: Int64
    """[L], ascending row numbers."""

    @property
    def num_rows(self) -> int:
        return len(self.token_ids)

    @property
    def num_sequences(self) -> int:
        return len(self.context_lens)
