"""The kernel port: the operators of a decoder step, over buffers, so that a back end need not be torch.

Owns the signatures and what they promise. Knows no torch, no device and no weight format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.kernels.batch import Int32, StepBatch

Floats = NDArray[np.float32]


class Buffer(Protocol):
    """Numbers in memory that a back end made: a torch.Tensor is one, and so is a pointer with a shape."""

    @property
    def shape(self) -> Sequence[int]: ...

    @property
    def dtype(self) -> object: ...

    def data_ptr(self) -> int: ...


B = TypeVar("B", bound=Buffer)
B_co = TypeVar("B_co", bound=Buffer, covariant=True)


class Projection(Protocol[B]):
    """A linear layer over a weight [outputs, inputs] packed in the back end's format."""

    def __call__(self, x: B) -> B:
        """[rows, inputs] -> [rows, outputs], a fresh buffer. A row's numbers do not depend on the other rows."""


class Lookup(Protocol[B_co]):
    """An embedding table [vocab, hidden]."""

    def __call__(self) -> B_co:
        """The embeddings of the step's tokens, [R, hidden], a fresh buffer."""


class RowSource(Protocol):
    """A matrix in host memory, of which single rows can be read."""

    @property
    def num_rows(self) -> int: ...

    def read(self, rows: Int32) -> Floats:
        """[n], n > 0 -> [n, columns], a fresh array."""


class AttentionShape(NamedTuple):
    """What the attention of every layer looks like."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    inverse_frequencies: tuple[float, ...]
    """[head_dim / 2]: the angle by which pair i turns per position."""


class Packing(Protocol[B]):
    """Turns a model's numbers into what the operators take; several threads may call it at once.

    Arrays may be scratch: nothing keeps a view of them.
    """

    rotary_order: NDArray[np.intp] | None
    """[head_dim], the order in which rows of a query or key head are to be packed; None: halves, as the files are."""

    def pack(self, weight: Floats, bias: Floats | None) -> Projection[B]:
        """weight: [outputs, inputs]; bias: [outputs]."""

    def table(self, rows: RowSource) -> Lookup[B]:
        """rows: [vocab, hidden]; may be kept."""

    def vector(self, values: Floats) -> B:
        """values: [n], for the norms."""

    def settle(self) -> None:
        """Everything is packed: what packing took beyond that goes back."""


class Operators(Protocol[B]):
    """The operators of a step, in the order in which a step calls them. Rows may be padded: R >= batch.num_rows."""

    def begin(self, batch: StepBatch) -> None:
        """What follows is of this batch."""

    def rms_norm(self, x: B, weight: B, epsilon: float) -> B:
        """[R, hidden] (arXiv 1910.07467)."""

    def add_rms_norm(self, x: B, residual: B, weight: B, epsilon: float) -> B:
        """Adds x to `residual` in place, and returns the norm of the sum."""

    def head_norm(self, qkv: B, query_weight: B, key_weight: B, epsilon: float) -> B:
        """RMSNorm of each query and key head of [R, (heads + 2 * kv_heads) * head_dim]; the values stay."""

    def rope_and_cache_write(self, layer: int, qkv: B) -> B:
        """Turns queries and keys by their positions (arXiv 2104.09864), writes K and V; returns the queries."""

    def paged_attention(self, layer: int, queries: B) -> B:
        """Causal attention of every row over its sequence's cached context; [R, heads * head_dim]."""

    def silu_and_mul(self, gate_up: B) -> B:
        """[R, 2 * inner] -> [R, inner]: silu(first half) * second half (arXiv 2002.05202)."""

    def gather_rows(self, x: B) -> B:
        """The rows whose logits are wanted, [L, hidden], possibly padded."""

    def finish(self, logits: B) -> B:
        """float32 [L, vocab] without padding."""


class Cache(Protocol):
    """The paged KV cache, laid out as the back end likes."""

    @property
    def block_bytes(self) -> int:
        """Bytes of one block over all layers, K and V."""

    def allocate_cache(self, num_blocks: int) -> None:
        """Zeros that take no memory until they are written."""


class Kernels(Packing[B], Operators[B], Cache, Protocol[B]):
    """A back end."""
