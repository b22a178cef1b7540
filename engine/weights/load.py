"""Checkpoint views become what kernels take: decoded through one scratch buffer, fused, packed.

Owns the scratch and the fusing of rows. Knows neither encodings nor weight formats.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Generic

import numpy as np

from engine.checkpoint.dequantize import dequantize_into
from engine.checkpoint.spec import ModelSpec
from engine.checkpoint.tensors import TensorView
from engine.kernels.port import B, Floats, Lookup, Packing, Projection
from engine.weights.table import EncodedTable


class Weights(Generic[B]):
    """Hands out a model's tensors, each packed, by their Hugging Face names. Several threads may ask at once."""

    def __init__(self, spec: ModelSpec, tensors: Mapping[str, TensorView], packing: Packing[B]) -> None:
        self.spec = spec
        self.tensors = tensors
        self.packing = packing
        self.scratch = Scratch(largest_projection(spec))

    def projection(self, *names: str) -> Projection[B]:
        """The named linear layers as one, their outputs side by side: `names` without .weight and .bias."""
        views = [self.tensors[f"{name}.weight"] for name in names]
        weight = self.scratch.room(sum(view.shape[0] for view in views), views[0].shape[1])
        first = 0
        for name, view in zip(names, views, strict=True):
            self.decode(view, weight[first : first + view.shape[0]], self.heads(name))
            first += view.shape[0]
        return self.packing.pack(weight, self.bias(names))

    def bias(self, names: tuple[str, ...]) -> Floats | None:
        found = [(name, self.tensors[f"{name}.bias"]) for name in names if f"{name}.bias" in self.tensors]
        if not found:
            return None
        assert len(found) == len(names), f"only some of {names} have a bias"
        pieces = []
        for name, view in found:
            pieces.append(np.empty(view.shape, np.float32))
            self.decode(view, pieces[-1], self.heads(name))
        return np.concatenate(pieces)

    def table(self, name: str) -> Lookup[B]:
        return self.packing.table(EncodedTable(self.tensors[f"{name}.weight"]))

    def vector(self, name: str) -> B:
        return self.packing.vector(self.values(name, None))

    def head_vector(self, name: str) -> B:
        """[head_dim], in the order of the packed heads."""
        return self.packing.vector(self.values(name, 1))

    def values(self, name: str, heads: int | None) -> Floats:
        view = self.tensors[f"{name}.weight"]
        values = np.empty(view.shape, np.float32)
        self.decode(view, values, heads)
        return values

    def decode(self, view: TensorView, out: Floats, heads: int | None) -> None:
        """heads: how many heads the rows make, where their order matters to the rotation."""
        dequantize_into(view, out)
        order = self.packing.rotary_order
        if heads is not None and order is not None:
            by_head = out.reshape(heads, len(order), -1)
            by_head[:] = by_head[:, order]

    def heads(self, name: str) -> int | None:
        if name.endswith(".q_proj"):
            return self.spec.num_heads
        return self.spec.num_kv_heads if name.endswith(".k_proj") else None


def largest_projection(spec: ModelSpec) -> int:
    """Numbers in the largest weight that is packed as one."""
    outputs = max(spec.vocab_size, spec.query_size + 2 * spec.kv_size, 2 * spec.intermediate_size)
    return max(outputs * spec.hidden_size, spec.hidden_size * max(spec.query_size, spec.intermediate_size))


class Scratch(threading.local):
    """Each thread's own buffer for all it decodes: memory touched once is not faulted in again for every tensor."""

    def __init__(self, size: int) -> None:
        """size: of the largest projection, in numbers; memory is taken as far as it is used."""
        self.floats = np.empty(size, np.float32)

    def room(self, rows: int, columns: int) -> Floats:
        """float32 [rows, columns]; what it held is gone."""
        return self.floats[: rows * columns].reshape(rows, columns)
