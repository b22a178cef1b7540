"""Decodes a tensor's bytes into float32, in numpy, bit for bit as GGML's reference decoders do.

Owns the loop over blocks; blocks_32 and blocks_256 own the formats. For loading and for tests, not for a step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint import blocks_32, blocks_256
from engine.checkpoint.encodings import Encoding
from engine.checkpoint.tensors import TensorView, permute_rows

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

CHUNK_VALUES = 1 << 16  # 256 KiB of float32: input, scratch and output of a chunk stay in a core's L2 cache


def dequantize(view: TensorView) -> Floats:
    """The values in the model's row order; a new array of shape view.shape."""
    out = np.empty(view.shape, np.float32)
    dequantize_into(view, out)
    return out


def dequantize_into(view: TensorView, out: Floats) -> None:
    """The same into `out`, a C-contiguous float32 array of shape view.shape."""
    assert out.shape == view.shape and out.dtype == np.float32 and out.flags.c_contiguous
    block, decode = view.encoding.block, DECODERS[view.encoding]
    blocks = permute_rows(view).reshape(-1, block.bytes)
    values = out.reshape(-1, block.values)
    step = max(1, CHUNK_VALUES // block.values)
    for start in range(0, len(blocks), step):
        decode(blocks[start : start + step], values[start : start + step])


def decode_f32(blocks: Bytes, out: Floats) -> None:
    out[:] = blocks.view("<f4")


def decode_f16(blocks: Bytes, out: Floats) -> None:
    out[:] = blocks.view("<f2")


def decode_bf16(blocks: Bytes, out: Floats) -> None:
    np.left_shift(blocks.view("<u2"), 16, out=out.view(np.uint32), dtype=np.uint32)


# [blocks, bytes of a block] -> [blocks, values of a block]
DECODERS: dict[Encoding, Callable[[Bytes, Floats], None]] = {
    Encoding.F32: decode_f32,
    Encoding.F16: decode_f16,
    Encoding.BF16: decode_bf16,
    Encoding.Q8_0: blocks_32.decode_q8_0,
    Encoding.Q4_0: blocks_32.decode_q4_0,
    Encoding.Q4_1: blocks_32.decode_q4_1,
    Encoding.Q5_0: blocks_32.decode_q5_0,
    Encoding.Q5_1: blocks_32.decode_q5_1,
    Encoding.Q4_K: blocks_256.decode_q4_k,
    Encoding.Q5_K: blocks_256.decode_q5_k,
    Encoding.Q6_K: blocks_256.decode_q6_k,
}
