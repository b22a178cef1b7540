"""Writes safetensors files and Hugging Face folders. Shares no code with the reader."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.oracles.quantize import encode

DTYPES = {"f4": "F32", "f2": "F16", "f8": "F64", "i8": "I64", "i4": "I32", "i1": "I8", "u1": "U8", "b1": "BOOL"}


def safetensors_bytes(tensors: Mapping[str, np.ndarray], dtype: str | None = None) -> bytes:
    """A sound file; `dtype` "F32", "F16" or "BF16" encodes every tensor so, else each keeps its own."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        raw = encode(tensor, dtype) if dtype else np.ascontiguousarray(tensor).tobytes()
        header[name] = {
            "dtype": dtype or DTYPES[tensor.dtype.str[1:]],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    return with_header(header, data)


def with_header(header: object, data: bytes) -> bytes:
    """Any header, sound or not: a bytes object is taken as it is."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw)) + raw + data


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray], dtype: str | None = None) -> Path:
    path.write_bytes(safetensors_bytes(tensors, dtype))
    return path


def write_hf(
    folder: Path,
    config: Mapping[str, object],
    tensors: Mapping[str, np.ndarray],
    tokenizer_json: str | Mapping[str, object] | None = None,
    shards: int = 1,
    *,
    dtype: str | None = None,
    extra: Mapping[str, object] | None = None,
) -> Path:
    """Write a model folder and return it.

    `shards` above 1 writes that many files and their index. `dtype` as for `safetensors_bytes`. `extra` holds
    further files by name: objects become JSON, strings stay as they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, object] = {"config.json": dict(config), **(extra or {})}
    if tokenizer_json is not None:
        files["tokenizer.json"] = tokenizer_json
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors, dtype)
    else:
        files["model.safetensors.index.json"] = write_shards(folder, tensors, shards, dtype)
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return folder


def write_shards(folder: Path, tensors: Mapping[str, np.ndarray], shards: int, dtype: str | None) -> dict[str, object]:
    """Deal the tensors out over `shards` files; returns the index."""
    weight_map: dict[str, str] = {}
    for number in range(shards):
        name = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        own = {tensor: tensors[tensor] for tensor in list(tensors)[number::shards]}
        write_safetensors(folder / name, own, dtype)
        weight_map |= dict.fromkeys(own, name)
    return {"metadata": {}, "weight_map": weight_map}
