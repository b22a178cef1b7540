"""SentencePiece's scores as merges: against SentencePiece's own rule, and the file that keeps them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checkpoint.tokenizer_file import VocabularyTokenizer
from engine.text import load_tokenizer
from engine.text.merges import find_merges, merges_of_scores
from tests.oracles.tiny_tokenizer import tiny_spm_gguf_vocabulary
from tests.unit.text.builders import gguf_file, sentencepiece_gguf, texts

SCORES = {"a": -1.0, "b": -2.0, "ab": -0.5, "abab": -3.0, "ba": -4.0}


def tokens_by_score(file: VocabularyTokenizer, text: str) -> list[str]:
    """SentencePiece BPE as its paper has it: again and again, join the neighbours whose union scores highest."""
    assert file.scores is not None
    scores = dict(zip(file.tokens, file.scores.tolist(), strict=True))
    pieces = list("▁" + text.replace(" ", "▁")) if text else []
    while True:
        unions = [
            (-scores[left + right], at)
            for at, (left, right) in enumerate(pairwise(pieces))
            if left + right in scores and not (left + right).startswith("<0x")
        ]
        if not unions:
            return [token for piece in pieces for token in ([piece] if piece in scores else bytes_of(piece))]
        _, at = min(unions)
        pieces[at : at + 2] = ["".join(pieces[at : at + 2])]


def bytes_of(piece: str) -> list[str]:
    return [f"<0x{byte:02X}>" for byte in piece.encode()]


@given(text=st.one_of(texts(), st.text(" abcdefghijklmnopqrstuvwxyz", max_size=40)))
def test_text_is_merged_as_sentencepiece_merges_it(text: str) -> None:
    tokenizer = sentencepiece_gguf()
    expected = [tokenizer.id_of(piece) for piece in tokens_by_score(gguf_file(tiny_spm_gguf_vocabulary()), text)]
    assert tokenizer.encode(text, add_special_tokens=False).tolist() == expected


def test_merges_come_best_score_first_and_make_known_tokens_only() -> None:
    assert find_merges(SCORES) == [("a", "b"), ("ab", "ab"), ("b", "a")]


def kept(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_merges_are_kept_and_read_back(tmp_path: Path) -> None:
    first = merges_of_scores(SCORES, tmp_path)
    [path] = kept(tmp_path)
    before = path.stat().st_mtime_ns
    assert merges_of_scores(SCORES, tmp_path) == first == find_merges(SCORES)
    assert (kept(tmp_path), path.stat().st_mtime_ns) == ([path], before)


def test_another_vocabulary_has_another_file(tmp_path: Path) -> None:
    merges_of_scores(SCORES, tmp_path)
    changed = SCORES | {"ba": -0.1}
    assert merges_of_scores(changed, tmp_path) == find_merges(changed)
    assert len(kept(tmp_path)) == 2


@pytest.mark.parametrize("damage", [b"", b"x", b"\x90" + bytes(32)], ids=["empty", "short", "wrong digest"])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: bytes) -> None:
    merges_of_scores(SCORES, tmp_path)
    [path] = kept(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(damage)
    assert merges_of_scores(SCORES, tmp_path) == find_merges(SCORES)
    assert path.read_bytes() == whole


def test_a_file_cut_short_is_made_again(tmp_path: Path) -> None:
    merges_of_scores(SCORES, tmp_path)
    [path] = kept(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert merges_of_scores(SCORES, tmp_path) == find_merges(SCORES)


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert merges_of_scores(SCORES, tmp_path / "file") == find_merges(SCORES)


def test_a_tokenizer_from_the_cache_tokenizes_the_same(tmp_path: Path) -> None:
    file = gguf_file(tiny_spm_gguf_vocabulary())
    load_tokenizer(file, tmp_path)
    assert len(kept(tmp_path)) == 1
    text = "the quick brown fox 😀"
    assert load_tokenizer(file, tmp_path).encode(text) == sentencepiece_gguf().encode(text)
