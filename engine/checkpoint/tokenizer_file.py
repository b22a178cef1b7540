"""What a model file says of its tokenizer, as data: GGUF's vocabulary, or where tokenizer.json lies.

Checks types, lengths and references. Builds no tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, starmap
from operator import add, itemgetter
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from engine.checkpoint.chat_template import templates_in, templates_of_folder
from engine.checkpoint.fields import Fields
from engine.checkpoint.json_file import read_json_or_empty

KEYS = "tokenizer.ggml."
MAX_TOKEN_TYPE = 6  # normal, unknown, control, user-defined, unused, byte are 1 to 6; 0 is undefined
DEFAULT_TEMPLATE = "default"

Model = Literal["gpt2", "llama"]
MODELS: dict[str, Model] = {"gpt2": "gpt2", "llama": "llama"}


class VocabularyTokenizer(Struct, frozen=True, kw_only=True, tag="vocabulary"):
    """From GGUF metadata (docs/gguf.md, tokenizer.ggml.*). None: the file does not say.

    `gpt2` is byte-level BPE with merges, `llama` is SentencePiece with scores. Every list has one entry per token
    id but merges; both parts of a merge and its result are tokens.
    """

    model: Model
    pre: str | None  # how text is cut before merging: "smollm", "qwen2", "llama-bpe", ...
    tokens: list[str]
    token_types: NDArray[np.int32]
    merges: list[tuple[str, str]]
    scores: NDArray[np.float32] | None
    bos_token_id: int | None
    eos_token_id: int | None
    unk_token_id: int | None
    pad_token_id: int | None
    eot_token_id: int | None
    add_bos_token: bool | None
    add_eos_token: bool | None
    add_space_prefix: bool | None
    chat_templates: dict[str, str]

    @property
    def chat_template(self) -> str | None:
        return self.chat_templates.get(DEFAULT_TEMPLATE)


class FolderTokenizer(Struct, frozen=True, kw_only=True, tag="folder"):
    """From a Hugging Face folder: tokenizer.json, and what tokenizer_config.json adds. None: it does not say."""

    path: Path  # of tokenizer.json
    bos_token: str | None
    eos_token: str | None
    unk_token: str | None
    pad_token: str | None
    add_bos_token: bool | None
    add_eos_token: bool | None
    additional_special_tokens: tuple[str, ...]
    chat_templates: dict[str, str]

    @property
    def chat_template(self) -> str | None:
        return self.chat_templates.get(DEFAULT_TEMPLATE)


TokenizerFile: TypeAlias = VocabularyTokenizer | FolderTokenizer


def tokenizer_from_gguf(metadata: Mapping[str, object], vocab_size: int, source: str) -> VocabularyTokenizer | None:
    """None where the file has no tokenizer; raises ModelFileError for one that is unsound or of another kind."""
    fields = Fields(source, metadata)
    model = fields.text_or(KEYS + "model", "none")
    if model in ("none", "no_vocab"):
        return None
    if model not in MODELS:
        raise fields.fault(f"the tokenizer model {model!r} is not supported, only gpt2 and llama")
    tokens = tokens_in(fields, vocab_size)

    def token_id(name: str) -> int | None:
        token = fields.whole_or(f"{KEYS}{name}_token_id", None)
        if token is not None and token >= len(tokens):
            raise fields.fault(f"{KEYS}{name}_token_id is {token}, outside the {len(tokens)} tokens")
        return token

    return VocabularyTokenizer(
        model=MODELS[model],
        pre=fields.text_or(KEYS + "pre", None),
        tokens=tokens,
        token_types=token_types_in(fields, len(tokens)),
        merges=merges_in(fields, tokens) if model == "gpt2" else [],
        scores=per_token(fields, "scores", np.float32, len(tokens)) if model == "llama" else None,
        bos_token_id=token_id("bos"),
        eos_token_id=token_id("eos"),
        unk_token_id=token_id("unknown"),
        pad_token_id=token_id("padding"),
        eot_token_id=token_id("eot"),
        add_bos_token=fields.flag_or(KEYS + "add_bos_token", None),
        add_eos_token=fields.flag_or(KEYS + "add_eos_token", None),
        add_space_prefix=fields.flag_or(KEYS + "add_space_prefix", None),
        chat_templates=templates_in(fields, "tokenizer.chat_template", DEFAULT_TEMPLATE),
    )


def tokens_in(fields: Fields, vocab_size: int) -> list[str]:
    tokens = strings_in(fields, KEYS + "tokens")
    if len(tokens) != vocab_size:
        raise fields.fault(f"{KEYS}tokens has {len(tokens)} entries, and the vocabulary {vocab_size}")
    if len(set(tokens)) != len(tokens):
        raise fields.fault(f"{KEYS}tokens has the same token twice")
    return tokens


def merges_in(fields: Fields, tokens: list[str]) -> list[tuple[str, str]]:
    """Split into parts; checked in bulk, since a vocabulary has as many merges as tokens."""
    merges = strings_in(fields, KEYS + "merges")
    pairs = [(left, right) for left, gap, right in [merge.partition(" ") for merge in merges] if gap]
    if len(pairs) < len(merges):
        raise fields.fault(f"{KEYS}merges has an entry that is not two parts")
    known = set(tokens)
    if not known.issuperset(chain(map(itemgetter(0), pairs), map(itemgetter(1), pairs), starmap(add, pairs))):
        unknown = next(part for a, b in pairs for part in (a, b, a + b) if part not in known)
        raise fields.fault(f"{KEYS}merges uses {unknown!r}, which is not a token")
    return pairs


def strings_in(fields: Fields, key: str) -> list[str]:
    found = fields.required(key)
    if not isinstance(found, list) or not set(map(type, found)) <= {str}:
        raise fields.fault(f"{key} is not an array of strings")
    return found


def token_types_in(fields: Fields, length: int) -> NDArray[np.int32]:
    types: NDArray[np.int32] = per_token(fields, "token_type", np.int32, length)
    if types.min() < 0 or types.max() > MAX_TOKEN_TYPE:
        raise fields.fault(f"{KEYS}token_type has a type outside 0 to {MAX_TOKEN_TYPE}")
    return types


def per_token(fields: Fields, name: str, dtype: type[np.generic], length: int) -> NDArray[Any]:
    """An array with one entry per token, whose declared element type is `dtype`."""
    found = fields.required(KEYS + name)
    if not isinstance(found, np.ndarray) or found.dtype != np.dtype(dtype):
        kind = found.dtype if isinstance(found, np.ndarray) else type(found).__name__
        raise fields.fault(f"{KEYS}{name} is declared as {kind}, not as an array of {np.dtype(dtype)}")
    if len(found) != length:
        raise fields.fault(f"{KEYS}{name} has {len(found)} entries for {length} tokens")
    return found


def tokenizer_from_hf(folder: Path) -> FolderTokenizer | None:
    """None where the folder has no tokenizer.json; raises ModelFileError for files that are unsound."""
    path = folder / "tokenizer.json"
    if not path.exists():
        return None
    config = folder / "tokenizer_config.json"
    fields = Fields(str(config), read_json_or_empty(config))
    return FolderTokenizer(
        path=path,
        bos_token=token_text(fields, "bos_token"),
        eos_token=token_text(fields, "eos_token"),
        unk_token=token_text(fields, "unk_token"),
        pad_token=token_text(fields, "pad_token"),
        add_bos_token=fields.flag_or("add_bos_token", None),
        add_eos_token=fields.flag_or("add_eos_token", None),
        additional_special_tokens=special_tokens(fields),
        chat_templates=templates_of_folder(folder, fields, DEFAULT_TEMPLATE),
    )


def token_text(fields: Fields, key: str) -> str | None:
    """A token is a string, or an object with `content` where it also has stripping rules."""
    found = fields.table.get(key)
    content = found.get("content") if isinstance(found, dict) else found
    if content is not None and not isinstance(content, str):
        raise fields.fault(f"{key} is {found!r}, not a token")
    return content


def special_tokens(fields: Fields) -> tuple[str, ...]:
    """`additional_special_tokens` in 4.x; `extra_special_tokens` in 5.x, a list or an object by role."""
    texts: list[str] = []
    for key in ("additional_special_tokens", "extra_special_tokens"):
        found = fields.table.get(key)
        listed = list(found.values()) if isinstance(found, dict) else found or []
        if not isinstance(listed, list):
            raise fields.fault(f"{key} is {found!r}, not a list of tokens")
        for token in listed:
            text = token_text(Fields(fields.source, {key: token}), key)
            if text is not None and text not in texts:
                texts.append(text)
    return tuple(texts)
