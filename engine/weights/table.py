"""An embedding table that stays encoded as the file has it; rows are decoded when they are read.

Owns a copy of the encoded bytes, so the file can be closed. Knows no format.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.checkpoint.dequantize import dequantize
from engine.checkpoint.tensors import TensorView
from engine.kernels.batch import Int32
from engine.kernels.port import Floats


class EncodedTable:
    """Implements kernels.port.RowSource."""

    def __init__(self, view: TensorView) -> None:
        self.view = view
        self.encoded = np.frombuffer(view.data, np.uint8).reshape(view.shape[0], view.row_bytes).copy()

    @property
    def num_rows(self) -> int:
        return self.view.shape[0]

    def read(self, rows: Int32) -> Floats:
        """[n], n > 0 -> float32 [n, columns]"""
        shape = (len(rows), self.view.shape[1])
        return dequantize(replace(self.view, shape=shape, data=self.encoded[rows].reshape(-1).data))
