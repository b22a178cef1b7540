"""Stop strings: found however the text is cut, and no letter of one is ever sent."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text import Detokenizer, StopScanner, stop_ids
from tests.unit.text.builders import byte_level, ids


class Outcome(NamedTuple):
    pieces: list[str]
    matched: str | None

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def scan(stops: tuple[str, ...], pieces: list[str], include: bool = False) -> Outcome:
    """What is sent for each piece, up to the match or the end."""
    scanner, sent = StopScanner(stops, include), []
    for piece in pieces:
        result = scanner.push(piece)
        sent.append(result.text)
        if result.matched is not None:
            return Outcome(sent, result.matched)
    return Outcome([*sent, scanner.flush().text], None)


def expected(stops: tuple[str, ...], text: str, include: bool) -> tuple[str, str | None]:
    """By trying every beginning of the text in turn: the first that ends in a stop string, the longest such."""
    for end in range(1, len(text) + 1):
        if found := [stop for stop in stops if text[:end].endswith(stop)]:
            longest = max(found, key=len)
            return text[: end if include else end - len(longest)], longest
    return text, None


def held(stops: tuple[str, ...], text: str) -> int:
    """Length of the longest end of the text that begins a stop string and is not all of it."""
    sizes = range(min(len(text), max(map(len, stops), default=1) - 1), 0, -1)
    return next((size for size in sizes if any(len(s) > size and s.startswith(text[-size:]) for s in stops)), 0)


def cut(text: str, sizes: list[int]) -> list[str]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    return [*pieces, text[at:]]


ALPHABET = "ab\n]^-"
STOPS = st.lists(st.text(ALPHABET, min_size=1, max_size=5), max_size=4).map(tuple)
TEXTS = st.text(ALPHABET, max_size=30)
SIZES = st.lists(st.integers(0, 5), max_size=12)


@given(stops=STOPS, text=TEXTS, sizes=SIZES, include=st.booleans())
def test_STP_01_every_cut_of_a_text_has_the_same_outcome(stops, text, sizes, include) -> None:
    outcome = scan(stops, cut(text, sizes), include)
    assert (outcome.text, outcome.matched) == expected(stops, text, include)


@given(stops=STOPS, text=TEXTS, sizes=SIZES)
def test_exactly_what_may_begin_a_stop_string_is_held_back(stops, text, sizes) -> None:
    scanner, sent, seen = StopScanner(stops), "", ""
    for piece in cut(text, sizes):
        seen += piece
        result = scanner.push(piece)
        sent += result.text
        if result.matched is not None:
            return
        assert sent == seen[: len(seen) - held(stops, seen)]


@given(stops=STOPS, text=TEXTS, sizes=SIZES)
def test_nothing_is_held_back_where_the_stop_string_is_shown(stops, text, sizes) -> None:
    scanner = StopScanner(stops, include=True)
    for piece in cut(text, sizes):
        result = scanner.push(piece)
        if result.matched is not None:
            return
        assert result.text == piece


def test_STP_01_no_letter_of_the_stop_string_is_sent() -> None:
    assert scan(("MNOPQR",), ["JKL", "MN", "O", "PQ", "R", "S"]) == Outcome(["JKL", "", "", "", ""], "MNOPQR")


@pytest.mark.parametrize("end", ["EOS", "max_tokens"])
def test_STP_02_what_was_held_back_is_sent_when_the_answer_ends_otherwise(end: str) -> None:
    assert scan(("XYZ!",), ["hello ", "XY"]) == Outcome(["hello ", "", "XY"], None)


@pytest.mark.parametrize(("include", "text"), [(False, "hel"), (True, "hello w")])
def test_STP_03_a_stop_string_inside_a_piece_is_noticed(include: bool, text: str) -> None:
    outcome = scan(("lo w",), ["hel", "lo wor", "ld"], include)
    assert (outcome.text, outcome.matched) == (text, "lo w")


def test_STR_10_text_that_begins_no_stop_string_is_sent_at_once() -> None:
    assert scan(("\nEND",), ["I", " am", " here"]).pieces == ["I", " am", " here", ""]


def test_a_beginning_that_comes_to_nothing_is_sent_as_soon_as_that_is_known() -> None:
    assert scan(("aab",), ["aaa", "a", "c"]) == Outcome(["a", "a", "aac", ""], None)


def test_of_two_that_end_together_the_longest_is_named() -> None:
    assert scan(("b", "ab"), ["xab"]) == Outcome(["x"], "ab")


def test_the_one_that_is_complete_first_wins_over_one_that_began_earlier() -> None:
    assert scan(("abcd", "bc"), list("abcd")) == Outcome(["", "", "a"], "bc")


def test_after_a_match_nothing_more_is_said() -> None:
    scanner = StopScanner(("b",))
    scanner.push("abc")
    assert (scanner.push("d").text, scanner.flush().text) == ("", "")


@given(pieces=st.lists(st.sampled_from(["a", "aa", "aaab", "b\n", "c"]), max_size=60))
def test_what_is_kept_is_shorter_than_the_longest_stop_string(pieces: list[str]) -> None:
    scanner = StopScanner(("aaaa", "aab\n"))
    for piece in pieces:
        if scanner.push(piece).matched is not None:
            return
        assert len(scanner.held) < 4


class TestSpecialTokens:
    """STP-05: a stop string that names a special token, which the text does not show."""

    def test_STP_05_stopping_at_the_tokens_id_stops_there(self) -> None:
        tokenizer, tokens = byte_level(), ids(byte_level(), "o", "<|im_end|>", "k")
        ends = stop_ids(tokenizer, ("<|im_end|>", "STOP"))
        assert ends == {tokenizer.eos_id: "<|im_end|>"}
        at = next(index for index, token in enumerate(tokens) if token in ends)
        assert Detokenizer(tokenizer).push(tokens[:at]) == "o"

    def test_STP_05_words_of_the_vocabulary_are_looked_for_in_the_text(self) -> None:
        assert byte_level().id_of("the") is not None or byte_level().id_of("Ġthe") is not None
        assert stop_ids(byte_level(), ("the", "Ġthe")) == {}

    def test_STP_05_the_text_shows_it_where_special_tokens_are_shown(self) -> None:
        tokenizer = byte_level()
        detokenizer = Detokenizer(tokenizer, skip_special_tokens=False)
        pieces = [detokenizer.push(array("i", [token])) for token in ids(tokenizer, "o", "<|im_end|>", "k")]
        assert scan(("<|im_end|>",), pieces) == Outcome(["o", ""], "<|im_end|>")
