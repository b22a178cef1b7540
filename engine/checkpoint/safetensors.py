"""Reads one safetensors file (github.com/huggingface/safetensors, format) into tensor slices.

Refuses holes, overlaps and bytes past the last tensor, as gguf.py does. Knows no architecture.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple, TypeGuard

from engine.base.errors import ModelFileError
from engine.checkpoint.mapped_file import MappedFile

MAX_HEADER_BYTES = 100_000_000  # the format's own bound
MAX_DIMENSIONS = 8
METADATA = "__metadata__"

ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4,
    "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip


class SafeTensor(NamedTuple):
    """One tensor: shape outermost first, `data` a slice of the mapped file, `dtype` the format's own word."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: memoryview


class SafetensorsFile(NamedTuple):
    """A whole file, checked; close `file` when the tensors are no longer needed."""

    file: MappedFile
    tensors: dict[str, SafeTensor]


class Placed(NamedTuple):
    """A tensor as the header has it; `start` and `end` count from the first byte behind the header."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    start: int
    end: int


def read_safetensors(path: Path) -> SafetensorsFile:
    """Raises ModelFileError, naming the file, for anything but a whole and sound safetensors file."""
    file = MappedFile(path)
    try:
        header, data_start = read_header(file)
        placed = [placed_of(path, name, entry) for name, entry in header.items() if name != METADATA]
        check_layout(path, placed, file.size - data_start)
    except ModelFileError:
        file.close()
        raise
    data = file.view[data_start:]
    return SafetensorsFile(file, {p.name: SafeTensor(p.name, p.shape, p.dtype, data[p.start : p.end]) for p in placed})


def read_header(file: MappedFile) -> tuple[dict[str, object], int]:
    """The header's object, and where the data begins."""
    if file.size < 8:
        raise ModelFileError(f"{file.path} is cut short: {8 - file.size} bytes of its header length are missing")
    length = int.from_bytes(file.view[:8], "little")
    if length > MAX_HEADER_BYTES:
        raise fault(file.path, f"its header would have {length} bytes, more than {MAX_HEADER_BYTES}")
    if (missing := 8 + length - file.size) > 0:
        raise ModelFileError(f"{file.path} is cut short: {missing} bytes of its header are missing")
    return parse_header(file.path, bytes(file.view[8 : 8 + length])), 8 + length


def parse_header(path: Path, raw: bytes) -> dict[str, object]:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        table = dict(pairs)
        if len(table) != len(pairs):
            raise fault(path, "a key appears twice in its header")
        return table

    try:
        header = json.loads(raw.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise fault(path, f"its header is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise fault(path, "its header is not a JSON object")
    return header


def placed_of(path: Path, name: str, entry: object) -> Placed:
    what = f"tensor {name!r}"
    if not isinstance(entry, dict):
        raise fault(path, f"{what} is not described by an object")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise fault(path, f"{what} has the dtype {dtype!r}, which is not supported")
    if not is_sizes(shape) or len(shape) > MAX_DIMENSIONS:
        raise fault(path, f"{what} has the shape {shape!r}")
    if not is_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise fault(path, f"{what} has the data_offsets {offsets!r}")

    size = ITEM_BYTES[dtype]
    for length in shape:
        size *= length
    start, end = offsets
    if end - start != size:
        raise fault(path, f"{what}, {dtype} of shape {shape}, needs {size} bytes, and its offsets span {end - start}")
    return Placed(name, tuple(shape), dtype, start, end)


def is_sizes(found: object) -> TypeGuard[list[int]]:
    """A list of integers that are not negative; JSON's true and 1.0 are not integers."""
    return isinstance(found, list) and all(type(item) is int and item >= 0 for item in found)


def check_layout(path: Path, placed: list[Placed], size: int) -> None:
    """Tensors follow each other without hole or overlap and fill the file to its last byte."""
    end = 0
    for tensor in sorted(placed, key=lambda p: (p.start, p.end)):
        if tensor.start != end:
            how = "overlaps the tensor before it" if tensor.start < end else "leaves a hole before it"
            raise fault(path, f"tensor {tensor.name!r} starts at {tensor.start} instead of {end}: it {how}")
        end = tensor.end
        if end > size:
            raise ModelFileError(
                f"{path} is cut short: tensor {tensor.name!r} of shape {list(tensor.shape)} ends at byte {end} of "
                f"the data, and {max(p.end for p in placed) - size} bytes are missing"
            )
    if end < size:
        raise fault(path, f"{size - end} bytes follow the last tensor")


def fault(path: Path, reason: str) -> ModelFileError:
    return ModelFileError(f"{path} is not a valid safetensors file: {reason}")
