"""Writes GGUF files: whole and sound ones by `write_gguf`, and odd ones from the same pieces.

Shares no code with the reader. Python values choose the GGUF type; `Typed` says it outright.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.oracles.quantize import encode

TYPE_IDS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "BF16": 30}
TYPE_IDS |= {"Q4_K": 12, "Q5_K": 13, "Q6_K": 14}
FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(13)
DTYPES = {"u1": UINT8, "i1": INT8, "u2": UINT16, "i2": INT16, "u4": UINT32, "i4": INT32, "f4": FLOAT32}
DTYPES |= {"b1": BOOL, "u8": UINT64, "i8": INT64, "f8": FLOAT64}


class Typed(NamedTuple):
    """A value with its GGUF type, e.g. `Typed(UINT8, 3)`; a list is an array of that element type."""

    kind: int
    value: object


class RawTensor(NamedTuple):
    """A tensor whose bytes are given as they shall lie in the file (for K-quants, or to lie about a size)."""

    shape: tuple[int, ...]
    encoding: str
    data: bytes


def write_gguf(
    path: Path,
    metadata: Mapping[str, object],
    tensors: Mapping[str, np.ndarray | RawTensor],
    encodings: Mapping[str, str] | str = "F32",
    *,
    version: int = 3,
) -> Path:
    """Write a sound file and return `path`.

    Arrays are given as the model has them (outermost dimension first). `encodings` is one for all tensors of two
    or more dimensions, or one by tensor name; every other tensor is F32. The alignment is metadata's
    `general.alignment`, or 32.
    """
    path.write_bytes(gguf_bytes(metadata, tensors, encodings, version=version))
    return path


def gguf_bytes(
    metadata: Mapping[str, object],
    tensors: Mapping[str, np.ndarray | RawTensor],
    encodings: Mapping[str, str] | str = "F32",
    *,
    version: int = 3,
) -> bytes:
    alignment = metadata.get("general.alignment", 32)
    alignment = int(alignment.value if isinstance(alignment, Typed) else alignment)  # type: ignore[call-overload]
    raw = {name: raw_tensor(name, tensor, encodings) for name, tensor in tensors.items()}

    table, data = b"", b""
    for name, tensor in raw.items():
        table += pack_tensor(name, tensor.shape[::-1], TYPE_IDS[tensor.encoding], len(data))
        data += pad(tensor.data, alignment)
    pairs = b"".join(pack_pair(key, value) for key, value in metadata.items())
    return pad(pack_header(version, len(raw), len(metadata)) + pairs + table, alignment) + data


def raw_tensor(name: str, tensor: np.ndarray | RawTensor, encodings: Mapping[str, str] | str) -> RawTensor:
    if isinstance(tensor, RawTensor):
        return tensor
    if isinstance(encodings, str):
        encoding = encodings if tensor.ndim > 1 else "F32"
    else:
        encoding = encodings.get(name, "F32")
    return RawTensor(tensor.shape, encoding, encode(tensor, encoding))


def pack_header(version: int, num_tensors: int, num_pairs: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_pairs)


def pack_pair(key: str, value: object) -> bytes:
    kind, content = typed(value)
    if isinstance(content, list):
        return pack_string(key) + struct.pack("<I", ARRAY) + pack_array(kind, content)
    return pack_string(key) + struct.pack("<I", kind) + pack_scalar(kind, content)


def pack_array(kind: int, items: list[object]) -> bytes:
    head = struct.pack("<IQ", kind, len(items))
    if kind == ARRAY:
        return head + b"".join(pack_array(*typed(item)) for item in items)  # type: ignore[arg-type]
    return head + b"".join(pack_scalar(kind, item) for item in items)


def pack_scalar(kind: int, value: object) -> bytes:
    return pack_string(str(value)) if kind == STRING else struct.pack(FORMATS[kind], value)


def pack_string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def pack_tensor(name: str, innermost_first: tuple[int, ...], type_id: int, offset: int) -> bytes:
    """One entry of the tensor table; a dimension may be any 64-bit number."""
    shape = b"".join(struct.pack("<Q", length) for length in innermost_first)
    return pack_string(name) + struct.pack("<I", len(innermost_first)) + shape + struct.pack("<IQ", type_id, offset)


def typed(value: object) -> Typed:
    """The type that GGUF writers choose for a Python value; ints are UINT32 where they fit."""
    match value:
        case Typed():
            return value
        case np.ndarray():
            return Typed(DTYPES[value.dtype.str[1:]], value.tolist())
        case list():
            return Typed(ARRAY, value) if value and isinstance(value[0], list) else Typed(of_items(value), value)
        case bool():
            return Typed(BOOL, value)
        case int():
            return Typed(UINT32 if 0 <= value < 2**32 else INT64, value)
        case float():
            return Typed(FLOAT32, value)
        case str():
            return Typed(STRING, value)
    raise TypeError(f"no GGUF type for {value!r}")


def of_items(items: list[object]) -> int:
    kind = typed(items[0]).kind if items else INT32
    return INT32 if kind == UINT32 else kind


def pad(raw: bytes, alignment: int) -> bytes:
    return raw + bytes(-len(raw) % alignment)
