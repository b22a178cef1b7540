"""Linear layers: the weight formats of the torch back end.

Owns how a weight lies in memory, and which row counts give the same numbers. Activations are float32 everywhere.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F

from engine.kernels.port import Projection

Linear = Projection[torch.Tensor]


class WeightFormat(Protocol):
    """How the weights of a model are kept and multiplied."""

    table_dtype: torch.dtype
    """What an embedding table is kept in."""

    def pack(self, weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
        """weight: float32 [outputs, inputs], scratch; bias: float32 [outputs]."""

    def padded(self, rows: int) -> int:
        """The number of rows to compute where `rows` are wanted: the same numbers for every row then."""

    def settle(self) -> None:
        """Every weight is packed: what packing took beyond them goes back."""


class PlainFormat:
    """torch's own linear, with weights in any dtype."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.table_dtype = dtype
        self.device = device

    def pack(self, weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
        own = weight.to(self.device, self.table_dtype, copy=True)
        return PlainLinear(own, None if bias is None else bias.to(self.device, self.table_dtype, copy=True))

    def padded(self, rows: int) -> int:
        return rows

    def settle(self) -> None:
        return


class PlainLinear:
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias).float()
