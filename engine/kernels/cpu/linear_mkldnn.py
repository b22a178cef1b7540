"""Weights reordered once by oneDNN into the tiles of the processor's matrix units.

Owns the reordering and the row counts of a call: up to some count a row's bits do not depend on it.
"""

from __future__ import annotations

import torch

from engine.kernels.cpu.linear import Linear

LARGEST_CALL = 128
"""Rows of a call, at most: beyond, oneDNN picks kernels that round differently."""
CALLS = (LARGEST_CALL, 64, 32, 16, 8, 4, 2, 1)


class ReorderedFormat:
    """bfloat16 on processors with units for it; float32 anywhere."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.table_dtype = dtype
        self.calls: dict[tuple[int, int], int] = {}
        """For each (outputs, inputs) the largest call whose rows have the bits of a single one."""

    def pack(self, weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
        own_bias = None if bias is None else bias.to(self.table_dtype, copy=True)
        layer = ReorderedLinear(weight.to(self.table_dtype), own_bias)
        shape = (weight.shape[0], weight.shape[1])
        if shape not in self.calls:
            self.calls[shape] = agreeing_call(layer, weight.shape[1])
        layer.largest_call = self.calls[shape]
        return layer

    def padded(self, rows: int) -> int:
        return rows

    def settle(self) -> None:
        return


class ReorderedLinear:
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, 1)
        self.dtype = weight.dtype
        self.num_outputs = len(weight)
        self.bias = bias
        self.largest_call = LARGEST_CALL
        self.multiply = torch.ops.mkldnn._linear_pointwise.default

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.dtype)
        if len(x) <= self.largest_call:
            return self.call(x).float()
        out = torch.empty(len(x), self.num_outputs)
        for first in range(0, len(x), self.largest_call):
            out[first : first + self.largest_call] = self.call(x[first : first + self.largest_call])
        return out

    def call(self, x: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = self.multiply(x, self.weight, self.bias, "none", [], "")
        return product


def agreeing_call(layer: ReorderedLinear, num_inputs: int) -> int:
    """The largest call of which every smaller one has the bits."""
    x = torch.randn(LARGEST_CALL, num_inputs, generator=torch.Generator().manual_seed(0)).to(layer.dtype)
    single = torch.cat([layer.call(x[row : row + 1]) for row in range(8)])
    for largest in CALLS:
        counts = sorted({largest, largest // 2, largest * 3 // 4, 17, 7, 2} - {0})
        calls = [layer.call(x[:count]) for count in counts if count <= largest]
        if all(torch.equal(call[:8], single[: len(call)]) for call in calls):
            return largest
    return 1
