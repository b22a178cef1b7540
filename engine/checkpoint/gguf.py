"""Reads a GGUF file (versions 2 and 3, github.com/ggml-org/ggml docs/gguf.md) into metadata and tensor slices.

Refuses holes, overlaps and bytes past the last tensor's padding, as safetensors.py does. Knows no architecture.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from engine.base.errors import ModelFileError
from engine.checkpoint.encodings import Encoding
from engine.checkpoint.gguf_values import Value, ValueReader
from engine.checkpoint.locate import MAGIC
from engine.checkpoint.mapped_file import MappedFile

VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_DIMENSIONS = 4
MAX_KEY_BYTES = 65_535  # docs/gguf.md
LEAST_PAIR_BYTES = 8 + 1 + 4 + 1  # key length, key, value type, value
LEAST_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8  # name length, name, rank, one dimension, type, offset

TYPES = {
    0: Encoding.F32,
    1: Encoding.F16,
    2: Encoding.Q4_0,
    3: Encoding.Q4_1,
    6: Encoding.Q5_0,
    7: Encoding.Q5_1,
    8: Encoding.Q8_0,
    12: Encoding.Q4_K,
    13: Encoding.Q5_K,
    14: Encoding.Q6_K,
    30: Encoding.BF16,
}


class GgufTensor(NamedTuple):
    """One tensor: shape outermost first, `data` a slice of the mapped file."""

    name: str
    shape: tuple[int, ...]
    encoding: Encoding
    data: memoryview


class GgufFile(NamedTuple):
    """A whole file, checked; close `file` when the tensors are no longer needed."""

    file: MappedFile
    metadata: dict[str, Value]
    tensors: dict[str, GgufTensor]


class Placed(NamedTuple):
    """A tensor as its table entry has it; `start` counts from the first byte of tensor data."""

    name: str
    shape: tuple[int, ...]
    encoding: Encoding
    start: int
    size: int


def read_gguf(path: Path) -> GgufFile:
    """Raises ModelFileError, naming the file, for anything but a whole and sound GGUF file."""
    file = MappedFile(path)
    try:
        return parse(file)
    except ModelFileError:
        file.close()
        raise


def parse(file: MappedFile) -> GgufFile:
    reader = open_header(file)
    num_tensors = reader.count("the number of tensors", LEAST_TENSOR_BYTES)
    num_pairs = reader.count("the number of metadata pairs", LEAST_PAIR_BYTES)
    metadata = read_metadata(reader, num_pairs)
    alignment = read_alignment(reader, metadata)
    table = read_table(reader, num_tensors, alignment)

    data_start = round_up(reader.at, alignment)
    check_layout(reader, table, data_start, alignment)
    tensors = {
        t.name: GgufTensor(t.name, t.shape, t.encoding, file.view[data_start + t.start :][: t.size]) for t in table
    }
    return GgufFile(file, metadata, tensors)


def open_header(file: MappedFile) -> ValueReader:
    """A reader that stands behind magic and version."""
    reader = ValueReader(file.path, file.view, 0)
    if bytes(reader.take(4, "the magic number")) != MAGIC:
        raise reader.fault("it does not begin with GGUF")
    version = reader.u32("the version")
    if version not in VERSIONS:
        # A big-endian file shows its version in the upper bytes.
        order = "big-endian files are" if version and version & 0xFFFF == 0 else f"version {version} is"
        raise reader.fault(f"{order} not supported, only little-endian versions 2 and 3")
    return reader


def read_metadata(reader: ValueReader, count: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    for index in range(count):
        key = reader.string(f"metadata key {index}")
        if not key or len(key) > MAX_KEY_BYTES:
            raise reader.fault(f"metadata key {index} has {len(key)} characters")
        if key in metadata:
            raise reader.fault(f"metadata key {key!r} appears twice")
        metadata[key] = reader.value(f"metadata {key!r}")
    return metadata


def read_alignment(reader: ValueReader, metadata: dict[str, Value]) -> int:
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if isinstance(alignment, bool) or not isinstance(alignment, int):
        raise reader.fault("general.alignment is not an integer")
    if alignment <= 0 or alignment & (alignment - 1):
        raise reader.fault(f"general.alignment is {alignment}, not a power of two")
    return alignment


def read_table(reader: ValueReader, count: int, alignment: int) -> list[Placed]:
    table: dict[str, Placed] = {}
    for index in range(count):
        tensor = read_entry(reader, index)
        if tensor.name in table:
            raise reader.fault(f"tensor {tensor.name!r} appears twice")
        if tensor.start % alignment:
            raise reader.fault(f"tensor {tensor.name!r} starts at {tensor.start}, not a multiple of {alignment}")
        table[tensor.name] = tensor
    return list(table.values())


def read_entry(reader: ValueReader, index: int) -> Placed:
    name = reader.string(f"the name of tensor {index}")
    if not name:
        raise reader.fault(f"tensor {index} has an empty name")
    what = f"tensor {name!r}"

    rank = reader.u32(f"the rank of {what}")
    if not 1 <= rank <= MAX_DIMENSIONS:
        raise reader.fault(f"{what} has {rank} dimensions, not 1 to {MAX_DIMENSIONS}")
    innermost_first = [reader.u64(f"the shape of {what}") for _ in range(rank)]
    if 0 in innermost_first:
        raise reader.fault(f"{what} has a dimension of 0")

    kind = reader.u32(f"the type of {what}")
    encoding = TYPES.get(kind)
    if encoding is None:
        raise reader.fault(f"{what} has the GGML type {kind}, which is not supported")
    if innermost_first[0] % encoding.block.values:
        raise reader.fault(f"the rows of {what} have {innermost_first[0]} values, not whole {encoding} blocks")

    shape = tuple(reversed(innermost_first))
    return Placed(name, shape, encoding, reader.u64(f"the offset of {what}"), encoding.num_bytes(shape))


def check_layout(reader: ValueReader, table: list[Placed], data_start: int, alignment: int) -> None:
    """Tensors follow each other without hole or overlap, end inside the file, and nothing follows them."""
    size = len(reader.view)
    for tensor in table:
        if (end := data_start + tensor.start + tensor.size) > size:
            raise ModelFileError(
                f"{reader.path} is cut short: tensor {tensor.name!r} of shape {list(tensor.shape)} ends at byte "
                f"{end}, and {end - size} bytes are missing"
            )

    end = 0
    for tensor in sorted(table, key=lambda t: t.start):
        expected = round_up(end, alignment)
        if tensor.start != expected:
            how = "overlaps the tensor before it" if tensor.start < expected else "leaves a hole before it"
            raise reader.fault(f"tensor {tensor.name!r} starts at {tensor.start} instead of {expected}: it {how}")
        end = tensor.start + tensor.size

    last = data_start + end if table else reader.at
    if size not in (last, round_up(last, alignment)):
        raise reader.fault(f"{size - last} bytes follow the last tensor, which ends at byte {last}")


def round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
