from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import ModelFileError
from engine.checkpoint.safetensors import read_safetensors
from tests.oracles.safetensors_writer import safetensors_bytes, with_header, write_safetensors


def refusal(tmp_path: Path, raw: bytes) -> str:
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw)
    with pytest.raises(ModelFileError) as caught:
        read_safetensors(path)
    assert "model.safetensors" in str(caught.value)
    return str(caught.value)


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_tensors_are_read_with_shape_dtype_and_bytes(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([7, 8], np.int64)}
    found = read_safetensors(write_safetensors(tmp_path / "m.safetensors", arrays)).tensors
    assert {n: (t.shape, t.dtype, bytes(t.data)) for n, t in found.items()} == {
        "a": ((2, 3), "F32", arrays["a"].tobytes()),
        "b": ((2,), "I64", arrays["b"].tobytes()),
    }


def test_bfloat16_is_read(tmp_path):
    path = write_safetensors(tmp_path / "m.safetensors", {"a": np.ones(3, np.float32)}, "BF16")
    assert bytes(read_safetensors(path).tensors["a"].data) == b"\x80\x3f" * 3


def test_scalars_and_empty_tensors_are_allowed(tmp_path):
    arrays = {"scalar": np.array(1.0, np.float32), "empty": np.zeros((0, 4), np.float32), "b": np.ones(1, np.float32)}
    found = read_safetensors(write_safetensors(tmp_path / "m.safetensors", arrays)).tensors
    assert [found[name].shape for name in arrays] == [(), (0, 4), (1,)]


def test_order_in_the_header_need_not_be_the_order_of_the_data(tmp_path):
    header = {"b": entry(offsets=(8, 16)), "a": entry()}
    (tmp_path / "m.safetensors").write_bytes(with_header(header, bytes(range(16))))
    found = read_safetensors(tmp_path / "m.safetensors").tensors
    assert bytes(found["b"].data) == bytes(range(8, 16))


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 100_000_001])
def test_FIL_06_impossible_header_length_is_refused(tmp_path, length):
    assert str(length) in refusal(tmp_path, struct.pack("<Q", length) + b"{}" + bytes(1000))


@pytest.mark.parametrize(
    "header",
    [
        pytest.param({"t": entry(shape=(1152, 2**42 + 1), offsets=(0, 8))}, id="FIL-01-shape-near-2-to-42"),
        pytest.param({"t": entry(shape=(2**32, 2**32, 1), offsets=(0, 0))}, id="FIL-03-product-2-to-64"),
        pytest.param({"t": entry(shape=(1,) * 9, offsets=(0, 4))}, id="FIL-03-nine-dimensions"),
        pytest.param({"t": entry(shape=(-1, -2))}, id="negative-dimensions"),
        pytest.param({"t": entry(shape=(2.0,))}, id="dimension-is-a-float"),
        pytest.param({"t": entry(shape=(True, 2))}, id="dimension-is-a-boolean"),
        pytest.param({"t": entry(shape=None)}, id="no-shape"),
        pytest.param({"t": entry(shape=(3,))}, id="shape-and-offsets-disagree"),
        pytest.param({"t": entry(offsets=(8, 0))}, id="offsets-turned-round"),
        pytest.param({"t": entry(offsets=(-8, 0))}, id="negative-offset"),
        pytest.param({"t": entry(offsets=(0, 4, 8))}, id="three-offsets"),
        pytest.param({"t": entry(offsets=(4, 12))}, id="hole-before-the-first"),
        pytest.param({"a": entry(), "b": entry()}, id="two-tensors-in-one-place"),
        pytest.param({"a": entry(), "b": entry(offsets=(4, 12))}, id="overlap"),
        pytest.param({"t": entry(dtype="F33")}, id="unknown-dtype"),
        pytest.param({"t": entry(dtype=["F32"])}, id="dtype-is-a-list"),
        pytest.param({"t": [1, 2]}, id="entry-is-a-list"),
        pytest.param([1, 2], id="header-is-a-list"),
        pytest.param(b'{"t": {"dtype":"F32","shape":[2],"data_offsets":[0,8]},"t":{}}', id="same-name-twice"),
        pytest.param(b'{"t": {"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]}}', id="same-key-twice"),
        pytest.param(b"not json", id="not-json"),
        pytest.param(b'{"t": \xff}', id="not-utf-8"),
        pytest.param(b"[" * 100_000, id="nested-without-end"),
        pytest.param(b'{"t": {"shape": [' + b"9" * 10_000 + b"]}}", id="number-of-ten-thousand-digits"),
        pytest.param(b"", id="empty-header"),
    ],
)
def test_unsound_header_is_refused(tmp_path, header):
    assert "not a valid safetensors file" in refusal(tmp_path, with_header(header, bytes(8)))


def test_FIL_08_file_cut_anywhere_is_refused_with_the_bytes_missing(tmp_path):
    raw = safetensors_bytes({"a": np.ones(4, np.float32), "b": np.ones(5, np.float32)})
    for size in range(1, len(raw)):
        assert "bytes" in (said := refusal(tmp_path, raw[:size])) and "missing" in said


@pytest.mark.parametrize("cut", [1, 7, 20, 36], ids=lambda cut: f"FIL-08-cut-by-{cut}")
def test_cut_data_says_how_much_is_missing(tmp_path, cut):
    raw = safetensors_bytes({"a": np.ones(4, np.float32), "b": np.ones(5, np.float32)})
    assert f"{cut} bytes are missing" in refusal(tmp_path, raw[:-cut])


def test_FIL_08_cut_at_the_end_of_the_header_is_refused(tmp_path):
    raw = safetensors_bytes({"a": np.ones(4, np.float32)})
    header_end = 8 + json.loads(str(struct.unpack("<Q", raw[:8])[0]))
    assert "16 bytes are missing" in refusal(tmp_path, raw[:header_end])
