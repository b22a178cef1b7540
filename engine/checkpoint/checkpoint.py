"""Opens a model, GGUF file or Hugging Face folder, as one thing: spec, tensors under one naming, tokenizer data.

Owns the check that the tensors are exactly those the spec asks for. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from engine.base.errors import ModelFileError
from engine.checkpoint.encodings import Encoding
from engine.checkpoint.generation import GenerationDefaults, generation_from_gguf, generation_from_hf
from engine.checkpoint.gguf import GgufFile, read_gguf
from engine.checkpoint.json_file import read_json, read_json_or_empty
from engine.checkpoint.mapped_file import MappedFile
from engine.checkpoint.names import expected_tensors, from_gguf_name, interleaved_heads, is_harmless
from engine.checkpoint.shards import Shards, read_shards
from engine.checkpoint.spec import ModelSpec
from engine.checkpoint.spec_gguf import ROPE_FACTORS, spec_from_gguf
from engine.checkpoint.spec_hf import spec_from_hf_config
from engine.checkpoint.tensors import TensorView
from engine.checkpoint.tokenizer_file import TokenizerFile, tokenizer_from_gguf, tokenizer_from_hf

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An open model. `tensors` has exactly `expected_tensors(spec)`; its views are valid until `close`."""

    path: Path
    spec: ModelSpec
    tensors: Mapping[str, TensorView]
    tokenizer: TokenizerFile | None
    generation: GenerationDefaults
    files: tuple[MappedFile, ...]

    @property
    def chat_template(self) -> str | None:
        return None if self.tokenizer is None else self.tokenizer.chat_template

    def close(self) -> None:
        """Give the files back; a file stays mapped while an array over one of its tensors is still in use."""
        for view in self.tensors.values():
            view.release()
        for file in self.files:
            file.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_checkpoint(path: Path | str) -> Checkpoint:
    """A GGUF file or a Hugging Face folder; raises ModelFileError where it is not whole, sound and supported."""
    path = Path(path)
    return open_folder(path) if path.is_dir() else open_gguf(path)


def open_gguf(path: Path) -> Checkpoint:
    opened = read_gguf(path)
    try:
        spec = spec_from_gguf(opened.metadata, opened.tensors, str(path))
        tensors = checked(path, spec, views_of_gguf(path, opened, spec))
        tokenizer = tokenizer_from_gguf(opened.metadata, spec.vocab_size, str(path))
        generation = generation_from_gguf(opened.metadata, str(path))
    except ModelFileError:
        opened.file.close()
        raise
    return Checkpoint(path, spec, tensors, tokenizer, generation, (opened.file,))


def open_folder(folder: Path) -> Checkpoint:
    config = read_json(folder / "config.json")
    generation = read_json_or_empty(folder / "generation_config.json")
    spec = spec_from_hf_config(config, generation, str(folder / "config.json"))
    tokenizer = tokenizer_from_hf(folder)
    defaults = generation_from_hf(generation, str(folder / "generation_config.json"))
    shards = read_shards(folder)
    try:
        tensors = checked(folder, spec, views_of_shards(shards))
    except ModelFileError:
        for file in shards.files:
            file.close()
        raise
    return Checkpoint(folder, spec, tensors, tokenizer, defaults, tuple(shards.files))


def views_of_gguf(path: Path, opened: GgufFile, spec: ModelSpec) -> dict[str, TensorView]:
    views = {}
    for tensor in opened.tensors.values():
        if tensor.name == ROPE_FACTORS:
            continue  # its effect is spec.rope_scaling
        name = from_gguf_name(tensor.name)
        if name is None:
            raise ModelFileError(f"{path}: tensor {tensor.name!r} has no place in {spec.architecture}")
        heads = interleaved_heads(name, spec) if spec.architecture == "llama" else None
        views[name] = TensorView(name, tensor.shape, tensor.encoding, tensor.data, path, heads)
    return views


def views_of_shards(shards: Shards) -> dict[str, TensorView]:
    views = {}
    for name, (tensor, source) in shards.tensors.items():
        if is_harmless(name):
            continue
        if tensor.dtype not in ("F32", "F16", "BF16"):
            raise ModelFileError(f"{source}: tensor {name!r} is {tensor.dtype}; only F32, F16 and BF16 are supported")
        views[name] = TensorView(name, tensor.shape, Encoding(tensor.dtype), tensor.data, source)
    return views


def checked(path: Path, spec: ModelSpec, found: dict[str, TensorView]) -> dict[str, TensorView]:
    """Exactly the expected tensors, in their order; raises ModelFileError naming what is missing, odd or left over."""
    if spec.num_layers > len(found):  # before anything is counted out for each of them
        raise ModelFileError(f"{path}: {spec.num_layers} layers cannot lie in {len(found)} tensors")
    expected = expected_tensors(spec)
    if spec.tie_word_embeddings:
        drop_tied_head(path, found)
    if missing := [name for name in expected if name not in found]:
        raise ModelFileError(f"{path}: {len(missing)} of {len(expected)} tensors are missing: {some(missing)}")
    if surplus := [name for name in found if name not in expected]:
        raise ModelFileError(f"{path}: {len(surplus)} tensors have no place in {spec.architecture}: {some(surplus)}")
    for name, shape in expected.items():
        if found[name].shape != shape:
            raise ModelFileError(
                f"{path}: tensor {name!r} has shape {list(found[name].shape)}, the configuration says {list(shape)}"
            )
    return {name: found[name] for name in expected}


def drop_tied_head(path: Path, found: dict[str, TensorView]) -> None:
    """A head beside a tied embedding is a copy of it, or the file contradicts itself."""
    head = found.pop(HEAD, None)
    if head is not None and EMBEDDING in found and head.data != found[EMBEDDING].data:
        raise ModelFileError(f"{path}: the head is tied to the embedding, and {HEAD} differs from {EMBEDDING}")


def some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
