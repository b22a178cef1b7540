"""Every back end and weight format that works on this machine, for tests that all of them must pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engine.kernels.cpu.cache import PagedCache
from engine.kernels.cpu.canonical import FINE
from engine.kernels.cpu.kernels import TorchKernels
from engine.kernels.cpu.linear import PlainFormat, WeightFormat
from engine.kernels.cpu.linear_half import HalfPackedFormat
from engine.kernels.cpu.linear_mkldnn import ReorderedFormat
from engine.kernels.cpu.step import StepBuilder
from engine.kernels.machine import this_machine
from engine.kernels.port import AttentionShape
from tests.fakes.numpy_kernels import NumpyKernels, array

CPU = torch.device("cpu")
SHAPE = AttentionShape(num_heads=6, num_kv_heads=2, head_dim=16, inverse_frequencies=tuple(0.5**i for i in range(8)))
NUM_LAYERS, BLOCK_SIZE, NUM_BLOCKS = 2, 4, 128


@dataclass(frozen=True)
class Backend:
    """A back end with a cache, and how a test gives it numbers and gets them back. `off`: relative to the largest."""

    kernels: Any
    off: float
    give: Callable[[np.ndarray], Any]

    def take(self, buffer: Any) -> np.ndarray:
        return np.asarray(buffer, np.float64)

    def assert_near(self, buffer: Any, expected: np.ndarray) -> None:
        found = self.take(buffer)[: len(expected)]
        assert found.shape == expected.shape
        assert np.abs(found - expected).max(initial=0) <= self.off * np.abs(expected).max(initial=1e-30)

    def heads(self, qkv: np.ndarray) -> Any:
        """qkv: [T, heads + 2 * kv_heads, head_dim] in halves -> a buffer [T, ...] with query and key rows as packed."""
        order = self.kernels.rotary_order
        if order is not None:
            turning = SHAPE.num_heads + SHAPE.num_kv_heads
            qkv = np.concatenate([qkv[:, :turning, order], qkv[:, turning:]], axis=1)
        return self.give(qkv.reshape(len(qkv), -1))


def in_torch(weights: WeightFormat, off: float, cache_dtype: torch.dtype) -> Backend:
    cache = PagedCache(SHAPE, NUM_LAYERS, BLOCK_SIZE, cache_dtype, CPU)
    builder = StepBuilder(SHAPE, cache, FINE, CPU)
    return Backend(
        TorchKernels(SHAPE, weights, cache, builder, CPU),
        off,
        lambda values: torch.from_numpy(np.array(values, np.float32)),
    )


def in_numpy() -> Backend:
    return Backend(NumpyKernels(SHAPE, NUM_LAYERS, BLOCK_SIZE), 1e-12, array)


FORMATS: dict[str, Callable[[], Backend]] = {
    "numpy": in_numpy,
    "float32": lambda: in_torch(PlainFormat(torch.float32, CPU), 2e-6, torch.float32),
    "float16": lambda: in_torch(PlainFormat(torch.float16, CPU), 5e-3, torch.float16),
    "bfloat16": lambda: in_torch(PlainFormat(torch.bfloat16, CPU), 2e-2, torch.bfloat16),
    "float32-reordered": lambda: in_torch(ReorderedFormat(torch.float32), 2e-6, torch.float32),
}
if this_machine().has_fbgemm:
    FORMATS["float16-packed"] = lambda: in_torch(HalfPackedFormat(), 5e-3, torch.float16)
if this_machine().has_bfloat16_units:
    FORMATS["bfloat16-reordered"] = lambda: in_torch(ReorderedFormat(torch.bfloat16), 2e-2, torch.bfloat16)
