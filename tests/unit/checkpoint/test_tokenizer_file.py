from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import ModelFileError
from engine.checkpoint.gguf import read_gguf
from engine.checkpoint.tokenizer_file import (
    FolderTokenizer,
    VocabularyTokenizer,
    tokenizer_from_gguf,
    tokenizer_from_hf,
)
from tests.oracles.gguf_writer import STRING, UINT8, Typed, write_gguf
from tests.oracles.tiny_models import vocabulary

TOKENS = ["<s>", "Ġ", "t", "h", "e", "Ġt", "he", "Ġthe"]
MERGES = ["Ġ t", "h e", "Ġt he"]
BPE = vocabulary(TOKENS, MERGES)
SENTENCEPIECE = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<0x0A>", "▁a"],
    "tokenizer.ggml.token_type": [2, 6, 1],
    "tokenizer.ggml.scores": [0.0, 0.0, -1.5],
}


def read(tmp_path: Path, keys: dict[str, object], **changes: object) -> VocabularyTokenizer | None:
    """What a GGUF file with `keys` says; `changes` go to tokenizer.ggml.*, and `...` takes a key away."""
    keys = keys | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    keys = {key: value for key, value in keys.items() if value is not ...}
    metadata = read_gguf(write_gguf(tmp_path / "m.gguf", keys, {})).metadata
    return tokenizer_from_gguf(metadata, len(keys.get("tokenizer.ggml.tokens", [])), str(tmp_path / "m.gguf"))


def refusal(tmp_path: Path, keys: dict[str, object], **changes: object) -> str:
    with pytest.raises(ModelFileError) as caught:
        read(tmp_path, keys, **changes)
    assert "m.gguf" in str(caught.value)
    return str(caught.value)


def test_byte_level_vocabulary_is_read(tmp_path):
    found = read(tmp_path, BPE, bos_token_id=0, add_bos_token=True, unknown_token_id=0)
    assert (found.model, found.pre, found.tokens) == ("gpt2", "smollm", TOKENS)
    assert found.merges == [("Ġ", "t"), ("h", "e"), ("Ġt", "he")]
    assert found.token_types.tolist() == [1] * 8
    assert (found.bos_token_id, found.eos_token_id, found.unk_token_id) == (0, None, 0)
    assert (found.add_bos_token, found.add_eos_token) == (True, None)


def test_sentencepiece_vocabulary_is_read(tmp_path):
    found = read(tmp_path, SENTENCEPIECE, add_space_prefix=False)
    assert found.scores.tolist() == [0.0, 0.0, -1.5]
    assert (found.merges, found.pre, found.add_space_prefix) == ([], None, False)


@pytest.mark.parametrize("model", [..., "none", "no_vocab"])
def test_file_without_tokenizer_has_none(tmp_path, model):
    assert read(tmp_path, {}, model=model) is None


def test_other_tokenizer_model_is_refused_by_name(tmp_path):
    assert "'bert'" in refusal(tmp_path, BPE, model="bert")


@pytest.mark.parametrize(
    "keys, changes",
    [
        pytest.param(SENTENCEPIECE, {"scores": Typed(UINT8, [0, 0, 0])}, id="FIL-05-scores-declared-uint8"),
        pytest.param(SENTENCEPIECE, {"scores": np.zeros(3)}, id="FIL-05-scores-declared-float64"),
        pytest.param(SENTENCEPIECE, {"scores": [0.0]}, id="FIL-05-scores-too-short"),
        pytest.param(SENTENCEPIECE, {"scores": ...}, id="FIL-05-scores-missing"),
        pytest.param(SENTENCEPIECE, {"scores": 1.0}, id="FIL-05-scores-no-array"),
        pytest.param(BPE, {"token_type": ...}, id="FIL-05-token-type-missing"),
        pytest.param(BPE, {"token_type": [1]}, id="FIL-05-token-type-too-short"),
        pytest.param(BPE, {"token_type": [1.0] * 8}, id="FIL-05-token-type-declared-float"),
        pytest.param(BPE, {"token_type": ["1"] * 8}, id="FIL-05-token-type-declared-string"),
        pytest.param(BPE, {"token_type": Typed(UINT8, [1] * 8)}, id="FIL-05-token-type-declared-uint8"),
        pytest.param(BPE, {"token_type": [1] * 7 + [99]}, id="token-type-unknown"),
        pytest.param(BPE, {"tokens": ...}, id="tokens-missing"),
        pytest.param(BPE, {"tokens": [1, 2, 3]}, id="tokens-no-strings"),
        pytest.param(BPE, {"tokens": "abc"}, id="tokens-no-array"),
        pytest.param(BPE, {"tokens": [*TOKENS[:-1], "<s>"]}, id="token-twice"),
        pytest.param(BPE, {"merges": ...}, id="merges-missing"),
        pytest.param(BPE, {"merges": [1, 2]}, id="merges-no-strings"),
        pytest.param(BPE, {"merges": ["Ġt"]}, id="merge-of-one-part"),
        pytest.param(BPE, {"merges": ["Ġ x"]}, id="merge-of-an-unknown-part"),
        pytest.param(BPE, {"merges": ["t h"]}, id="merge-into-an-unknown-token"),
        pytest.param(BPE, {"bos_token_id": 8}, id="id-outside-the-tokens"),
        pytest.param(BPE, {"eot_token_id": "0"}, id="id-no-integer"),
        pytest.param(BPE, {"add_bos_token": 1}, id="flag-no-boolean"),
        pytest.param(BPE, {"pre": 3}, id="pre-no-string"),
    ],
)
def test_unsound_vocabulary_is_refused(tmp_path, keys, changes):
    assert "tokenizer.ggml." in refusal(tmp_path, keys, **changes)


def test_FIL_05_token_list_shorter_than_the_vocabulary_is_refused(tmp_path):
    metadata = read_gguf(write_gguf(tmp_path / "m.gguf", BPE, {})).metadata
    with pytest.raises(ModelFileError, match="8 entries, and the vocabulary 9"):
        tokenizer_from_gguf(metadata, 9, "m.gguf")


def test_no_merges_at_all_is_a_vocabulary_of_single_bytes(tmp_path):
    assert read(tmp_path, BPE, merges=Typed(STRING, [])).merges == []


def test_named_chat_templates_are_kept_beside_the_default(tmp_path):
    templates = {"tokenizer.chat_template": "plain", "tokenizer.chat_template.tool_use": "tools"}
    found = read(tmp_path, BPE | templates)
    assert found.chat_template == "plain"
    assert found.chat_templates == {"default": "plain", "tool_use": "tools"}


# -- a Hugging Face folder -----------------------------------------------------------------------------------


def folder(tmp_path: Path, **config: object) -> Path:
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def of_folder(tmp_path: Path, **config: object) -> FolderTokenizer:
    found = tokenizer_from_hf(folder(tmp_path, **config))
    assert found is not None
    return found


def test_folder_without_tokenizer_json_has_none(tmp_path):
    assert tokenizer_from_hf(tmp_path) is None


def test_tokenizer_json_alone_is_enough(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    found = tokenizer_from_hf(tmp_path)
    assert found.path == tmp_path / "tokenizer.json"
    assert (found.bos_token, found.add_bos_token, found.chat_template) == (None, None, None)


def test_special_tokens_are_strings_or_objects(tmp_path):
    found = of_folder(tmp_path, bos_token="<s>", eos_token={"content": "</s>", "lstrip": False}, add_bos_token=True)
    assert (found.bos_token, found.eos_token, found.add_bos_token) == ("<s>", "</s>", True)


@pytest.mark.parametrize(
    "config",
    [
        {"additional_special_tokens": ["<a>", {"content": "<b>"}]},
        {"extra_special_tokens": ["<a>", "<b>"]},
        {"extra_special_tokens": {"image": "<a>", "audio": "<b>"}},
        {"additional_special_tokens": ["<a>", "<b>"], "extra_special_tokens": {"image": "<a>"}},
    ],
)
def test_additional_special_tokens_are_read_in_every_spelling(tmp_path, config):
    assert of_folder(tmp_path, **config).additional_special_tokens == ("<a>", "<b>")


def test_chat_template_file_wins_over_the_config(tmp_path):
    (tmp_path / "chat_template.jinja").write_text("from the file", "utf-8")
    assert of_folder(tmp_path, chat_template="from the config").chat_template == "from the file"


def test_chat_templates_listed_by_name_are_read(tmp_path):
    listed = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    found = of_folder(tmp_path, chat_template=listed)
    assert (found.chat_template, found.chat_templates["tool_use"]) == ("plain", "tools")


def test_additional_chat_templates_of_the_folder_are_read(tmp_path):
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("tools", "utf-8")
    assert of_folder(tmp_path).chat_templates == {"tool_use": "tools"}


@pytest.mark.parametrize(
    "config",
    [
        {"bos_token": 1},
        {"bos_token": {"content": 1}},
        {"add_bos_token": "yes"},
        {"additional_special_tokens": "<a>"},
        {"additional_special_tokens": [1]},
        {"chat_template": 1},
        {"chat_template": ["plain"]},
        {"chat_template": [{"name": "default"}]},
    ],
)
def test_unsound_tokenizer_config_is_refused(tmp_path, config):
    with pytest.raises(ModelFileError, match=r"tokenizer_config\.json"):
        tokenizer_from_hf(folder(tmp_path, **config))
