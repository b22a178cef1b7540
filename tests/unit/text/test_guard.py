"""Where marks go, and that they only ever come on top of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.guard import PRIVATE_USE, Guard, free_character, strings_in
from tests.oracles.tiny_tokenizer import SPECIALS
from tests.unit.text.builders import texts

GUARD = Guard(SPECIALS)


@given(text=texts(), is_free=st.booleans())
def test_without_its_marks_a_text_is_what_it_was(text: str, is_free: bool) -> None:
    assert GUARD.marked_text(text, "\ue000", is_free).replace("\ue000", "") == text.replace("\ue000", "")


@given(text=texts())
def test_no_control_token_is_left_whole(text: str) -> None:
    marked = GUARD.marked_text(text, "\ue000", True)
    assert not any(special in marked for special in SPECIALS)


@pytest.mark.parametrize("text", ["hello world", "2 + 2 = 4", "", " ", "im_start"])
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert GUARD.marked_text(text, "\ue000", False) is text


@pytest.mark.parametrize(
    ("text", "marked"), [(" <|im_ ", " <|im_! "), (" end|>\n", " !end|>\n"), ("a<pad>b", "a<!pad>b")]
)
def test_marks_stand_inside_the_white_space_that_templates_trim(text: str, marked: str) -> None:
    assert GUARD.marked_text(text, "!", False) == marked


def test_the_character_is_one_that_no_text_has() -> None:
    assert free_character(["a\ue000", r"b\ue001"]) == "\ue002"


def test_a_text_of_all_private_characters_still_gets_one() -> None:
    assert free_character(map(chr, PRIVATE_USE)) == "\ue000"


def test_every_string_of_a_request_is_looked_at() -> None:
    assert list(strings_in({"a": ["b", {"c": ("d", 1, None)}]})) == ["a", "b", "c", "d"]
