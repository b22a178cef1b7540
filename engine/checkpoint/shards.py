"""The safetensors files of a Hugging Face folder, one or several, as one table of tensors.

Owns model.safetensors.index.json. Knows no architecture.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.base.errors import ModelFileError
from engine.checkpoint.mapped_file import MappedFile
from engine.checkpoint.safetensors import SafeTensor, read_safetensors

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class StoredTensor(NamedTuple):
    """A tensor and the file it lies in."""

    tensor: SafeTensor
    source: Path


class Shards(NamedTuple):
    """Every tensor of the folder; close the files when they are no longer needed."""

    files: list[MappedFile]
    tensors: dict[str, StoredTensor]


class Index(msgspec.Struct):
    """model.safetensors.index.json: which tensor lies in which file."""

    weight_map: dict[str, str]


def read_shards(folder: Path) -> Shards:
    """Raises ModelFileError for a missing, truncated or unsound file, and for an index that does not tell the truth."""
    if (folder / INDEX).exists():
        return read_indexed(folder)
    if not (folder / SINGLE).exists():
        raise no_weights(folder)
    opened = read_safetensors(folder / SINGLE)
    return Shards([opened.file], {n: StoredTensor(t, folder / SINGLE) for n, t in opened.tensors.items()})


def read_indexed(folder: Path) -> Shards:
    weight_map = read_index(folder / INDEX)
    shards = Shards([], {})
    try:
        for name in sorted(set(weight_map.values())):
            add_shard(shards, folder / name, weight_map)
        for tensor, shard in weight_map.items():
            if tensor not in shards.tensors:
                raise ModelFileError(f"{folder / INDEX} puts tensor {tensor!r} in {shard}, which does not have it")
    except ModelFileError:
        for file in shards.files:
            file.close()
        raise
    return shards


def read_index(path: Path) -> dict[str, str]:
    try:
        index = msgspec.json.decode(path.read_bytes(), type=Index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a valid index: {error}") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from None
    for shard in set(index.weight_map.values()):
        # A plain name: an index must not reach for files elsewhere on the machine.
        if Path(shard).name != shard or "\0" in shard or not shard.endswith(".safetensors"):
            raise ModelFileError(f"{path} names the shard {shard!r}, which is not a safetensors file of its folder")
    return index.weight_map


def add_shard(shards: Shards, path: Path, weight_map: dict[str, str]) -> None:
    if not path.exists():
        raise ModelFileError(f"{path} is missing: {path.parent / INDEX} lists it")
    opened = read_safetensors(path)
    shards.files.append(opened.file)
    for name, tensor in opened.tensors.items():
        if weight_map.get(name) != path.name:
            place = f"puts in {weight_map[name]}" if name in weight_map else "does not list"
            raise ModelFileError(f"{path} holds tensor {name!r}, which {path.parent / INDEX} {place}")
        shards.tensors[name] = StoredTensor(tensor, path)


def no_weights(folder: Path) -> ModelFileError:
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt*")):
        return ModelFileError(f"{folder} has weights in pickle format only; convert them to {SINGLE}")
    return ModelFileError(f"{folder} has neither {SINGLE} nor {INDEX}")
