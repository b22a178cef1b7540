"""How text is cut before merging: what tells the known rules apart."""

from __future__ import annotations

import pytest

from engine.text.splitting import SPLITTINGS, find_splitting

TEXT = "I'LL pay 12345 dollars\n\n  now"


def cut(name: str, text: str) -> list[str]:
    """The pieces as text again."""
    splitting = SPLITTINGS[name]
    return [text[start:end] for _, (start, end) in splitting.pre_tokenizer().pre_tokenize_str(text)]


@pytest.mark.parametrize("name", SPLITTINGS)
def test_every_rule_keeps_every_character(name: str) -> None:
    text = TEXT + " naïve 日本語 😀 x=y; // 3.14\r\n\t'tis"
    assert "".join(cut(name, text)) == text


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("gpt-2", ["I", "'", "LL", " pay", " 12345", " dollars", "\n\n ", " now"]),
        ("smollm", ["I", "'", "LL", " pay", " ", "1", "2", "3", "4", "5", " dollars", "\n\n ", " now"]),
        ("llama-bpe", ["I", "'LL", " pay", " ", "123", "45", " dollars", "\n\n", " ", " now"]),
        ("qwen2", ["I", "'LL", " pay", " ", "1", "2", "3", "4", "5", " dollars", "\n\n", " ", " now"]),
        ("gpt-4o", ["I'LL", " pay", " ", "123", "45", " dollars", "\n\n", " ", " now"]),
        ("tekken", ["I", "'LL", " pay", " ", "1", "2", "3", "4", "5", " dollars", "\n\n", " ", " now"]),
        ("deepseek-v3", ["I", "'LL", " pay", " ", "123", "45", " dollars", "\n\n", " ", " now"]),
        ("deepseek-coder", ["I", "'", "LL", " pay", " ", "1", "2", "3", "4", "5", " dollars", "\n", "\n", " ", " now"]),
    ],
)
def test_the_rules_differ_where_their_models_do(name: str, pieces: list[str]) -> None:
    assert cut(name, TEXT) == pieces


def test_words_are_cut_where_case_changes_by_the_newer_rules_only() -> None:
    assert cut("gpt-4o", "camelCase") == ["camel", "Case"]
    assert cut("llama-bpe", "camelCase") == ["camelCase"]


def test_a_file_without_a_rule_gets_gpt2s() -> None:
    assert find_splitting("default") == find_splitting("gpt-2")


def test_an_unknown_rule_is_not_guessed() -> None:
    assert find_splitting("mystery") is None


def test_llama3_wants_bos_and_whole_words() -> None:
    assert find_splitting("llama-bpe") == find_splitting("llama3")
    assert SPLITTINGS["llama-bpe"].adds_bos and SPLITTINGS["llama-bpe"].ignore_merges
