from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint.dequantize import CHUNK_VALUES, DECODERS, dequantize, dequantize_into
from engine.checkpoint.encodings import Encoding
from engine.checkpoint.tensors import TensorView, row_order
from tests.oracles.quantize import ENCODERS, encode

GOLDEN = np.load(Path(__file__).parent / "golden" / "blocks.npz")
DECODED = [name.removesuffix(".decoded") for name in GOLDEN if name.endswith(".decoded")]
ENCODED = [name for name in DECODED if name in ENCODERS]


def view(raw: bytes, shape: tuple[int, ...], encoding: str, heads: int | None = None) -> TensorView:
    return TensorView("t", shape, Encoding(encoding), memoryview(raw), Path("t.gguf"), heads)


def test_every_encoding_but_the_plain_ones_has_a_golden_block():
    assert set(DECODED) | {"F32", "F16"} == set(Encoding) == set(DECODERS)


@pytest.mark.parametrize("encoding", DECODED)
def test_blocks_decode_to_the_bits_of_the_reference(encoding):
    raw, expected = GOLDEN[f"{encoding}.bytes"], GOLDEN[f"{encoding}.decoded"]
    found = dequantize(view(raw.tobytes(), expected.shape, encoding))
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("encoding", ENCODED)
def test_blocks_of_the_writer_are_the_reference_encoders(encoding):
    assert encode(GOLDEN["values"], encoding) == GOLDEN[f"{encoding}.bytes"].tobytes()


@pytest.mark.parametrize("encoding", ["F32", "F16", "BF16"])
def test_plain_values_come_back(encoding):
    values = np.array([[0.0, -0.0, 1.5, -2.0, np.inf, 2.0**-14]], np.float32)
    found = dequantize(view(encode(values, encoding), values.shape, encoding))
    assert np.array_equal(found.view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize("encoding", Encoding)
def test_chunks_do_not_show_in_the_values(encoding):
    block = encoding.block
    count = CHUNK_VALUES // block.values + 3
    one = np.random.default_rng(1).integers(0, 200, (7, block.bytes), dtype=np.uint8) % 120
    raw = np.tile(one, (count // 7 + 1, 1))[:count]
    whole = dequantize(view(raw.tobytes(), (count, block.values), encoding))
    assert np.array_equal(whole, dequantize(view(one.tobytes(), (7, block.values), encoding))[np.arange(count) % 7])


def test_unaligned_bytes_decode(tmp_path):
    values = np.arange(64, dtype=np.float32).reshape(2, 32)
    for encoding in ENCODERS:
        raw = memoryview(b"x" + encode(values, encoding))[1:]
        aligned = dequantize(view(encode(values, encoding), values.shape, encoding))
        assert np.array_equal(dequantize(TensorView("t", (2, 32), Encoding(encoding), raw, tmp_path)), aligned)


def test_into_fills_the_array_that_is_given():
    values = np.arange(64, dtype=np.float32).reshape(2, 32)
    out = np.full((2, 32), np.nan, np.float32)
    dequantize_into(view(encode(values, "F32"), (2, 32), "F32"), out)
    assert np.array_equal(out, values)


@given(heads=st.integers(1, 6), half=st.integers(1, 8))
def test_row_order_takes_the_pairs_of_each_head_apart(heads, half):
    order = row_order(heads * half * 2, heads)
    in_file = [(head, pair + half * part) for head in range(heads) for pair in range(half) for part in range(2)]
    assert [in_file[row] for row in order] == [(head, row) for head in range(heads) for row in range(2 * half)]


def test_interleaved_rows_decode_in_the_models_order():
    values = np.repeat(np.arange(8, dtype=np.float32)[:, None], 32, axis=1)
    found = dequantize(view(encode(values, "F32"), (8, 32), "F32", heads=2))
    assert found[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize("encoding", Encoding)
def test_size_of_a_tensor_is_its_blocks(encoding):
    block = encoding.block
    assert encoding.num_bytes((3, 2 * block.values)) == 6 * block.bytes
