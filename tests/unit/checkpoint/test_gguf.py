from __future__ import annotations

import json
import struct
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import ModelFileError
from engine.checkpoint.gguf import GgufFile, read_gguf
from tests.oracles.gguf_writer import (
    ARRAY,
    BOOL,
    INT64,
    STRING,
    UINT8,
    UINT32,
    RawTensor,
    Typed,
    gguf_bytes,
    pack_array,
    pack_header,
    pack_pair,
    pack_string,
    pack_tensor,
    pad,
    write_gguf,
)

GOLDEN = Path(__file__).parent / "golden"
WORD = pack_pair("a", "word")


def read(tmp_path: Path, raw: bytes) -> GgufFile:
    path = tmp_path / "model.gguf"
    path.write_bytes(raw)
    return read_gguf(path)


def refusal(tmp_path: Path, raw: bytes) -> str:
    """What the reader says of `raw`; it must say it fast and without allocating."""
    tracemalloc.start()
    start = time.perf_counter()
    try:
        with pytest.raises(ModelFileError) as caught:
            read(tmp_path, raw)
        seconds, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seconds < 1 and peak < 100e6
    assert "model.gguf" in str(caught.value)
    return str(caught.value)


def one_tensor(shape: tuple[int, ...], kind: int = 0, offset: int = 0, data: bytes = b"") -> bytes:
    """A file with the tensor `t` of any shape (innermost first), however impossible."""
    return pad(pack_header(3, 1, 0) + pack_tensor("t", shape, kind, offset), 32) + data


# -- what is sound is read -----------------------------------------------------------------------------------


def test_file_of_the_reference_writer_is_read_value_for_value():
    expected = json.loads((GOLDEN / "small.json").read_text("utf-8"))
    file = read_gguf(GOLDEN / "small.gguf")
    for key, value in expected["metadata"].items():
        found = file.metadata[key]
        assert (found.tolist() if isinstance(found, np.ndarray) else found) == value
    for name, (shape, _, raw) in expected["tensors"].items():
        assert list(file.tensors[name].shape) == shape
        assert bytes(file.tensors[name].data).hex() == raw


def test_numbers_keep_their_declared_element_type(tmp_path):
    arrays = {
        f"k.{dtype}": np.arange(3, dtype=dtype) for dtype in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "f4", "f8")
    }
    metadata = read(tmp_path, gguf_bytes(arrays, {})).metadata
    assert {key: value.dtype for key, value in metadata.items()} == {key: a.dtype for key, a in arrays.items()}


def test_version_2_is_read_like_version_3(tmp_path):
    tensors = {"t": np.arange(4, dtype=np.float32)}
    assert read(tmp_path, gguf_bytes({"a": 1}, tensors, version=2)).tensors["t"].shape == (4,)


def test_shape_is_given_outermost_first(tmp_path):
    file = read_gguf(write_gguf(tmp_path / "m.gguf", {}, {"t": np.zeros((2, 3, 32), np.float32)}, "Q8_0"))
    assert file.tensors["t"].shape == (2, 3, 32)


def test_tensors_are_slices_of_the_mapping_and_outlive_close(tmp_path):
    file = read(tmp_path, gguf_bytes({}, {"t": np.arange(4, dtype=np.float32)}))
    view = np.frombuffer(file.tensors["t"].data, np.float32)
    file.file.close()
    assert view.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_nested_arrays_are_lists(tmp_path):
    file = read(tmp_path, gguf_bytes({"a": Typed(ARRAY, [["x", "y"], ["z"]])}, {}))
    assert file.metadata["a"] == [["x", "y"], ["z"]]


def test_last_tensor_may_lack_its_padding(tmp_path):
    raw = gguf_bytes({}, {"t": np.arange(3, dtype=np.float32)})
    assert len(read(tmp_path, raw[: -32 + 12]).tensors["t"].data) == 12


# -- what is not is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((1152, 2**42 + 1), id="FIL-01-dims-near-2-to-42"),
        pytest.param((2**32, 2**32, 1), id="FIL-03-product-2-to-64"),
        pytest.param((2**63, 2**63, 2**63, 2**63), id="FIL-01-all-dims-huge"),
        pytest.param((2**64 - 1,), id="FIL-01-one-dim-2-to-64"),
    ],
)
def test_shape_whose_size_wraps_is_refused_by_name(tmp_path, shape):
    assert "tensor 't'" in (said := refusal(tmp_path, one_tensor(shape))) and "bytes are missing" in said


def test_FIL_01_offset_plus_size_that_wraps_is_refused(tmp_path):
    assert "bytes are missing" in refusal(tmp_path, one_tensor((8,), offset=2**64 - 32, data=bytes(32)))


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(one_tensor((0,)), id="FIL-02-first-dimension-0"),
        pytest.param(one_tensor((32, 0)), id="FIL-02-second-dimension-0"),
        pytest.param(one_tensor(()), id="FIL-02-no-dimensions"),
        pytest.param(one_tensor((1,) * 5), id="FIL-02-five-dimensions"),
        pytest.param(pack_header(3, 0, 1) + pack_pair("", 1) + bytes(64), id="FIL-02-empty-key"),
        pytest.param(pack_header(3, 1, 0) + pack_tensor("", (1,), 0, 0) + bytes(64), id="FIL-02-empty-tensor-name"),
        pytest.param(
            pack_header(3, 1, 0) + pack_string("t") + struct.pack("<I", 0xFFFFFFFF) + bytes(64), id="FIL-03-rank"
        ),
    ],
)
def test_zero_and_unbounded_ranks_are_refused(tmp_path, raw):
    assert "not a valid GGUF file" in refusal(tmp_path, raw)


@pytest.mark.parametrize("count", [2**63, 2**56, 2**64 - 1, 10**9, (2**63 - 1) // 33, (2**63 - 1) // 33 + 1])
@pytest.mark.parametrize("which", ["tensors", "pairs"])
def test_FIL_06_count_impossible_for_the_file_is_refused(tmp_path, count, which):
    counts = (count, 0) if which == "tensors" else (0, count)
    said = refusal(tmp_path, pack_header(3, *counts) + bytes(1024))
    assert "impossible" in said and str(count) in said


@pytest.mark.parametrize("kind", [UINT8, UINT32, INT64, BOOL, STRING, ARRAY])
@pytest.mark.parametrize("count", [2**63, 2**61 + 1, 10**9])
def test_FIL_06_array_longer_than_the_file_is_refused(tmp_path, kind, count):
    raw = pack_header(3, 0, 1) + pack_string("k") + struct.pack("<IIQ", ARRAY, kind, count) + bytes(1024)
    assert "impossible" in refusal(tmp_path, raw)


def test_arrays_nested_without_end_are_refused(tmp_path):
    deep = pack_array(UINT8, [1])
    for _ in range(5000):
        deep = struct.pack("<IQ", ARRAY, 1) + deep
    raw = pack_header(3, 0, 1) + pack_string("k") + struct.pack("<I", ARRAY) + deep
    assert "nests arrays" in refusal(tmp_path, raw)


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 5000])
def test_string_longer_than_the_file_is_refused_with_the_bytes_missing(tmp_path, length):
    raw = pack_header(3, 0, 1) + struct.pack("<Q", length) + b"key" + bytes(100)
    assert f"{length - 103} bytes are missing" in refusal(tmp_path, raw)


def test_string_in_an_array_longer_than_the_file_is_refused(tmp_path):
    items = pack_string("good") + struct.pack("<Q", 10_000) + bytes(100)
    raw = pack_header(3, 0, 1) + pack_string("k") + struct.pack("<IIQ", ARRAY, STRING, 2) + items
    assert "9900 bytes are missing" in refusal(tmp_path, raw)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pack_header(3, 0, 1) + pack_string("k") + struct.pack("<I", 13) + bytes(64), id="value-type"),
        pytest.param(pack_header(3, 0, 1) + pack_string("k") + struct.pack("<IIQ", 9, 99, 0) + bytes(9), id="element"),
        pytest.param(pack_header(3, 0, 1) + pack_string("k") + struct.pack("<IB", BOOL, 2) + bytes(64), id="bool-2"),
        pytest.param(pack_header(3, 0, 1) + struct.pack("<Q", 2) + b"\xff\xfe" + bytes(64), id="key-not-utf-8"),
        pytest.param(pack_header(3, 0, 2) + WORD + WORD, id="same-key-twice"),
        pytest.param(one_tensor((1,), kind=16, data=bytes(64)), id="unknown-tensor-type"),
        pytest.param(one_tensor((1,), kind=4, data=bytes(64)), id="removed-tensor-type"),
        pytest.param(one_tensor((33,), kind=8, data=bytes(64)), id="rows-not-whole-blocks"),
        pytest.param(one_tensor((1,), offset=1, data=bytes(64)), id="offset-not-aligned"),
        pytest.param(one_tensor((1,), offset=32, data=bytes(64)), id="hole-before-first-tensor"),
        pytest.param(gguf_bytes({"general.alignment": 32}, {}).replace(b"\x20\0\0\0", b"\0\0\0\0"), id="alignment-0"),
        pytest.param(gguf_bytes({"general.alignment": 48}, {"t": np.zeros(3)}), id="alignment-48"),
        pytest.param(pack_header(3, 0, 1) + pack_pair("general.alignment", "32") + bytes(64), id="alignment-string"),
        pytest.param(b"GGUX" + pack_header(3, 0, 0)[4:], id="magic"),
        pytest.param(pack_header(1, 0, 0), id="version-1"),
        pytest.param(pack_header(4, 0, 0), id="version-4"),
        pytest.param(b"GGUF" + struct.pack(">IQQ", 3, 0, 0), id="big-endian"),
    ],
)
def test_unsound_file_is_refused(tmp_path, raw):
    assert "not a valid GGUF file" in refusal(tmp_path, raw)


def test_big_endian_file_is_called_so(tmp_path):
    assert "big-endian" in refusal(tmp_path, b"GGUF" + struct.pack(">IQQ", 3, 0, 0))


def test_same_tensor_twice_is_refused(tmp_path):
    table = pack_tensor("t", (8,), 0, 0) + pack_tensor("t", (8,), 0, 32)
    assert "appears twice" in refusal(tmp_path, pad(pack_header(3, 2, 0) + table, 32) + bytes(64))


def test_overlapping_tensors_are_refused(tmp_path):
    table = pack_tensor("a", (16,), 0, 0) + pack_tensor("b", (16,), 0, 32)
    said = refusal(tmp_path, pad(pack_header(3, 2, 0) + table, 32) + bytes(96))
    assert "'b'" in said and "overlaps" in said


def test_two_tensors_at_one_offset_are_refused(tmp_path):
    table = pack_tensor("a", (8,), 0, 0) + pack_tensor("b", (8,), 0, 0)
    assert "overlaps" in refusal(tmp_path, pad(pack_header(3, 2, 0) + table, 32) + bytes(32))


def test_file_cut_anywhere_is_refused(tmp_path):
    tokens = {"tokens": ["one", "two"], "n": [1, 2, 3], "x": 1.5, "deep": Typed(ARRAY, [[1], [2]])}
    raw = gguf_bytes(tokens, {"t": np.ones((2, 32)), "u": np.ones(8, np.float32)}, "Q4_0")
    for size in range(1, len(raw)):
        assert refusal(tmp_path, raw[:size])


def test_cut_tensor_data_names_tensor_and_missing_bytes(tmp_path):
    raw = gguf_bytes({}, {"t": np.ones(8, np.float32)})
    said = refusal(tmp_path, raw[:-5])
    assert "'t'" in said and "5 bytes are missing" in said


def test_empty_and_absent_files_are_refused(tmp_path):
    assert "empty" in refusal(tmp_path, b"")
    with pytest.raises(ModelFileError, match=r"absent\.gguf cannot be read"):
        read_gguf(tmp_path / "absent.gguf")


def test_tensor_bytes_that_are_not_of_its_shape_are_refused(tmp_path):
    lie = {"t": RawTensor((64,), "F32", bytes(128)), "u": RawTensor((8,), "F32", bytes(256))}
    assert "overlaps" in refusal(tmp_path, gguf_bytes({}, lie))
