"""A back end of the kernel port without torch: every operator as its formula, one row at a time, in float64.

Keeps the tokens' keys and values by slot in a dict. Proves that the port asks for buffers and no more.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.batch import StepBatch
from engine.kernels.port import AttentionShape, Floats, RowSource
from tests.oracles.attention_reference import causal_attention, rotate_halves


class Array(np.ndarray):
    """A buffer as the port asks for one."""

    def data_ptr(self) -> int:
        return self.ctypes.data


def array(values: np.ndarray) -> Array:
    return np.array(values, np.float64).view(Array)


class NumpyKernels:
    """Implements engine.kernels.port.Kernels[Array]."""

    rotary_order = None  # halves, as the files are

    def __init__(self, shape: AttentionShape, num_layers: int, block_size: int) -> None:
        self.shape, self.num_layers, self.block_size = shape, num_layers, block_size
        self.batch: StepBatch | None = None
        self.cache: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    @property
    def block_bytes(self) -> int:
        return self.num_layers * 2 * self.shape.num_kv_heads * self.shape.head_dim * self.block_size * 8

    def allocate_cache(self, num_blocks: int) -> None:
        self.cache.clear()

    def pack(self, weight: Floats, bias: Floats | None):
        weight, bias = array(weight), 0.0 if bias is None else array(bias)
        return lambda x: array(x @ weight.T + bias)

    def table(self, rows: RowSource):
        return lambda: array(rows.read(self.batch.token_ids))

    def vector(self, values: Floats) -> Array:
        return array(values)

    def settle(self) -> None:
        return

    def begin(self, batch: StepBatch) -> None:
        self.batch = batch

    def rms_norm(self, x: Array, weight: Array, epsilon: float) -> Array:
        return array(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * weight)

    def add_rms_norm(self, x: Array, residual: Array, weight: Array, epsilon: float) -> Array:
        residual += x
        return self.rms_norm(residual, weight, epsilon)

    def head_norm(self, qkv: Array, query_weight: Array, key_weight: Array, epsilon: float) -> Array:
        queries, keys, values = self.split(qkv)
        normed = self.rms_norm(queries, query_weight, epsilon), self.rms_norm(keys, key_weight, epsilon), values
        return array(np.concatenate(normed, axis=1).reshape(qkv.shape))

    def rope_and_cache_write(self, layer: int, qkv: Array) -> Array:
        queries, keys, values = self.split(qkv)
        frequencies = np.array(self.shape.inverse_frequencies)
        keys = rotate_halves(keys, self.batch.positions, frequencies)
        for slot, key, value in zip(self.batch.slot_mapping.tolist(), keys, values, strict=True):
            self.cache[layer, slot] = key, value
        return array(rotate_halves(queries, self.batch.positions, frequencies))

    def paged_attention(self, layer: int, queries: Array) -> Array:
        batch, out = self.batch, np.empty(queries.shape)
        for sequence, length in enumerate(batch.context_lens.tolist()):
            begin, end = batch.query_starts[sequence : sequence + 2]
            cached = [self.cache[layer, self.slot(sequence, position)] for position in range(length)]
            keys, values = (np.stack(column) for column in zip(*cached, strict=True))
            padded = np.zeros((length, *queries.shape[1:]))  # rows of earlier steps: their answers are not kept
            padded[length - (end - begin) :] = queries[begin:end]
            out[begin:end] = causal_attention(padded, keys, values)[length - (end - begin) :]
        return array(out.reshape(len(queries), -1))

    def silu_and_mul(self, gate_up: Array) -> Array:
        gate, up = np.split(gate_up, 2, axis=1)
        return array(gate / (1 + np.exp(-gate)) * up)

    def gather_rows(self, x: Array) -> Array:
        return array(x[self.batch.logits_rows])

    def finish(self, logits: Array) -> Array:
        return logits.astype(np.float32).view(Array)

    def split(self, qkv: Array) -> list[np.ndarray]:
        """[T, heads, head_dim] each."""
        heads = np.asarray(qkv).reshape(len(qkv), -1, self.shape.head_dim)
        first = self.shape.num_heads
        return np.split(heads, [first, first + self.shape.num_kv_heads], axis=1)

    def slot(self, sequence: int, position: int) -> int:
        block = int(self.batch.block_tables[sequence, position // self.block_size])
        return block * self.block_size + position % self.block_size
