"""The default model's tokenizer and chats against transformers (tests/golden/make_text_golden.py)."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.checkpoint.checkpoint import open_checkpoint
from engine.checkpoint.tokenizer_file import TokenizerFile
from engine.text import ChatTemplate, Detokenizer, Tokenizer, load_tokenizer

pytestmark = pytest.mark.model
GOLDEN = Path(__file__).parent / "golden"
STRINGS = json.loads((GOLDEN / "smollm2_tokens.json").read_text())["strings"]
CHATS = json.loads((GOLDEN / "smollm2_chats.json").read_text())["chats"]
PLAIN_CHATS = [chat for chat in CHATS if not any("<|im_" in message["content"] for message in chat["messages"])]


@pytest.fixture(scope="module")
def file(default_model: Path) -> Iterator[TokenizerFile]:
    with open_checkpoint(default_model) as checkpoint:
        assert checkpoint.tokenizer is not None
        yield checkpoint.tokenizer


@pytest.fixture(scope="module")
def tokenizer(file: TokenizerFile) -> Tokenizer:
    return load_tokenizer(file, None)


@pytest.fixture(scope="module")
def template(file: TokenizerFile, tokenizer: Tokenizer) -> ChatTemplate:
    return ChatTemplate(file.chat_template, tokenizer.special_texts)


def test_there_is_something_to_compare() -> None:
    assert (len(STRINGS), len(CHATS), len(PLAIN_CHATS)) == (60, 10, 9)


@pytest.mark.parametrize("row", STRINGS, ids=range(len(STRINGS)))
def test_tokens_of_a_text_are_those_of_transformers(tokenizer: Tokenizer, row) -> None:
    assert tokenizer.encode(row["text"], parse_special=True).tolist() == row["ids"]
    assert tokenizer.encode(row["text"]).tolist() == row["plain_ids"]


@pytest.mark.parametrize("row", STRINGS, ids=range(len(STRINGS)))
def test_text_of_tokens_is_that_of_transformers(tokenizer: Tokenizer, row) -> None:
    tokens = array("i", row["ids"])
    assert tokenizer.decode(tokens, skip_special_tokens=False) == row["decoded"]
    assert tokenizer.decode(tokens) == row["decoded_skip"]


@pytest.mark.parametrize("row", STRINGS, ids=range(len(STRINGS)))
def test_a_stream_one_token_at_a_time_reads_as_transformers_has_it(tokenizer: Tokenizer, row) -> None:
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push(array("i", [token])) for token in row["ids"]]
    assert "".join([*pieces, detokenizer.flush()]) == row["decoded_skip"]


@pytest.mark.parametrize("chat", CHATS, ids=range(len(CHATS)))
def test_chats_render_as_in_transformers(template: ChatTemplate, chat) -> None:
    assert template.render(chat["messages"], add_generation_prompt=chat["add_generation_prompt"]) == chat["text"]


@pytest.mark.parametrize("chat", PLAIN_CHATS, ids=range(len(PLAIN_CHATS)))
def test_tokens_of_a_chat_are_those_of_transformers(template: ChatTemplate, tokenizer: Tokenizer, chat) -> None:
    tokens = template.encode_chat(tokenizer, chat["messages"], add_generation_prompt=chat["add_generation_prompt"])
    assert tokens.tolist() == chat["ids"]


def test_a_message_that_plays_the_system_does_not_become_one(template: ChatTemplate, tokenizer: Tokenizer) -> None:
    [chat] = [chat for chat in CHATS if chat not in PLAIN_CHATS]
    tokens = template.encode_chat(tokenizer, chat["messages"])
    assert tokenizer.decode(tokens, skip_special_tokens=False) == chat["text"]
    assert [token for token in tokens if token in tokenizer.special_ids] == [1, 2, 1, 2, 1]
