"""Tokenizers to test with: the tiny ones, and ones made for a single case."""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import tokenizers
from hypothesis import strategies as st

from engine.checkpoint.gguf_values import Value
from engine.checkpoint.tokenizer_file import FolderTokenizer, VocabularyTokenizer, tokenizer_from_gguf
from engine.text import Tokenizer, load_tokenizer
from tests.oracles.tiny_tokenizer import (
    SPECIALS,
    tiny_gguf_vocabulary,
    tiny_spm_gguf_vocabulary,
    tiny_spm_json,
    tiny_tokenizer_json,
)

DTYPES = {"tokenizer.ggml.token_type": np.int32, "tokenizer.ggml.scores": np.float32}


def from_json(source: str, **config: object) -> Tokenizer:
    """`config`: what tokenizer_config.json would say."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        path.write_text(source, "utf-8")
        return load_tokenizer(folder_file(path, **config), None)


def folder_file(path: Path, **config: object) -> FolderTokenizer:
    unsaid: dict[str, object] = dict.fromkeys(
        ("bos_token", "eos_token", "unk_token", "pad_token", "add_bos_token", "add_eos_token")
    )
    rest: dict[str, object] = {"additional_special_tokens": (), "chat_templates": {}}
    return FolderTokenizer(path=path, **(unsaid | rest | config))  # type: ignore[arg-type]


def gguf_file(keys: Mapping[str, object]) -> VocabularyTokenizer:
    """Through the reader that a real file goes through."""
    values: dict[str, Value] = {
        key: np.array(value, DTYPES[key]) if key in DTYPES else value  # type: ignore[misc]
        for key, value in keys.items()
    }
    file = tokenizer_from_gguf(values, len(values["tokenizer.ggml.tokens"]), "tiny.gguf")  # type: ignore[arg-type]
    assert file is not None
    return file


@cache
def byte_level() -> Tokenizer:
    return from_json(tiny_tokenizer_json(), bos_token="<s>", eos_token="<|im_end|>", pad_token="<pad>")


@cache
def sentencepiece() -> Tokenizer:
    return from_json(tiny_spm_json(), bos_token="<s>", eos_token="</s>", unk_token="<unk>")


@cache
def byte_level_gguf() -> Tokenizer:
    return load_tokenizer(gguf_file(tiny_gguf_vocabulary()), None)


@cache
def sentencepiece_gguf() -> Tokenizer:
    return load_tokenizer(gguf_file(tiny_spm_gguf_vocabulary()), None)


@cache
def reference(source: str, *, parse_special: bool) -> tokenizers.Tokenizer:
    """The library itself, untouched by ours."""
    found = tokenizers.Tokenizer.from_str(source)
    found.encode_special_tokens = not parse_special
    return found


def spm_of(pieces: list[str], *, prefix: bool = True, specials: tuple[str, ...] = ()) -> Tokenizer:
    """A GGUF `llama` tokenizer of just these tokens, after <unk>, <s>, </s> and the 256 bytes; `specials` last."""
    base = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens = [*base, *pieces, *specials]
    kinds = [2, 3, 3] + [6] * 256 + [1] * len(pieces) + [3] * len(specials)
    return load_tokenizer(
        gguf_file(
            {
                "tokenizer.ggml.model": "llama",
                "tokenizer.ggml.tokens": tokens,
                "tokenizer.ggml.token_type": kinds,
                "tokenizer.ggml.scores": [-float(index) for index in range(len(tokens))],
                "tokenizer.ggml.bos_token_id": 1,
                "tokenizer.ggml.eos_token_id": 2,
                "tokenizer.ggml.unknown_token_id": 0,
                "tokenizer.ggml.add_space_prefix": prefix,
            }
        ),
        None,
    )


def with_post_processor(source: str, before: str, token: int) -> str:
    """The same tokenizer.json, which now puts a token in front of every text."""
    changed = json.loads(source)
    special = {"id": before, "ids": [token], "tokens": [before]}
    changed["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": before, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {before: special},
    }
    return json.dumps(changed)


def ids(tokenizer: Tokenizer, *texts: str) -> array[int]:
    """Tokens by how the vocabulary writes them."""
    found = [tokenizer.id_of(text) for text in texts]
    assert None not in found, f"{texts} are not all tokens: {found}"
    return array("i", found)  # type: ignore[arg-type]


FRAGMENTS = (
    *SPECIALS,
    "<|im_",
    "start|>",
    "end|>",
    "<",
    "|>",
    "<|",
    "<s",
    ">",
    "hello",
    " world",
    "  ",
    "\n",
    "é",
    "😀",
    "日本",
    "42",
)


def texts() -> st.SearchStrategy[str]:
    """Text as people write it, and text that plays with the texts of special tokens."""
    words = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)
    return st.one_of(st.text(max_size=40), words)


def plain_texts() -> st.SearchStrategy[str]:
    """Text without any special token's text."""
    return texts().filter(lambda text: not any(special in text for special in (*SPECIALS, "<unk>")))
