"""One tensor of a model file: what it is called, how its bytes lie, and what must be undone to use it.

Owns TensorView and the order of its rows. Decodes no value.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint.encodings import Encoding


@dataclass(frozen=True, slots=True)
class TensorView:
    """A zero-copy view; valid while the checkpoint is open.

    shape is outermost first. A tensor of two dimensions has shape[0] rows of `row_bytes` bytes each, blocks never
    straddle rows. row_permutation, where not None, is the number of heads whose rows the file interleaves:
    `permute_rows` puts them in order.
    """

    name: str
    shape: tuple[int, ...]
    encoding: Encoding
    data: memoryview
    source: Path
    row_permutation: int | None = None

    @property
    def num_values(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def release(self) -> None:
        """Let go of the bytes, unless an array still lies over them."""
        try:
            self.data.release()
        except BufferError:
            return

    @property
    def row_bytes(self) -> int:
        return len(self.data) // self.shape[0]


def row_order(num_rows: int, num_heads: int) -> NDArray[np.intp]:
    """Which row of the file is row i of the model; shape [num_rows].

    GGUF writers of the llama architecture store each head as pairs (0, h/2), (1, h/2 + 1), ... for rotations of
    neighbours; the model rotates halves.
    """
    return np.arange(num_rows).reshape(num_heads, -1, 2).swapaxes(1, 2).reshape(-1)


def permute_rows(view: TensorView) -> NDArray[np.uint8]:
    """The raw rows in the model's order, shape [rows, row_bytes]; a copy only where the file's order differs."""
    rows = np.frombuffer(view.data, np.uint8).reshape(view.shape[0], view.row_bytes)
    if view.row_permutation is None:
        return rows
    return rows[row_order(view.shape[0], view.row_permutation)]
