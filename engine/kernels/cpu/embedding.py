"""Embedding tables of the torch back end.

Owns where a table lies: in host memory as the file has it, or on the device.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from engine.kernels.cpu.step import Step
from engine.kernels.port import RowSource


class HostTable:
    """Decodes the rows of a step's tokens only: no second copy of the table, and no bits lost by one."""

    def __init__(self, step: Callable[[], Step], rows: RowSource) -> None:
        self.step = step
        self.rows = rows

    def __call__(self) -> torch.Tensor:
        return torch.from_numpy(self.rows.read(self.step().host_tokens))


class DeviceTable:
    def __init__(self, step: Callable[[], Step], rows: RowSource, dtype: torch.dtype, device: torch.device) -> None:
        self.step = step
        self.device = device
        self.weight = torch.from_numpy(rows.read(np.arange(rows.num_rows, dtype=np.int32))).to(device, dtype)

    def __call__(self) -> torch.Tensor:
        tokens = torch.from_numpy(self.step().host_tokens).to(self.device)
        return self.weight.index_select(0, tokens).float()
