"""Event frames: one line each, whatever text they carry."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.frontends.openai.sse import Template, event

BREAKS = "\u2028\u2029\u0085\n\r\x0b\x0c\x1c\x1d\x1e"
TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(BREAKS))


def lines(frame: bytes) -> list[str]:
    return [line for line in frame.decode().splitlines() if line]


@given(TEXT)
def test_STR_13_an_event_is_one_line_for_every_reader(text: str):
    frame = event({"text": text})
    [line] = lines(frame)
    assert json.loads(line.removeprefix("data: ")) == {"text": text}
    assert frame.endswith(b"\n\n") and frame.count(b"\n") == 2


@pytest.mark.parametrize("text", ["a\u2028b", "\u0085", "c\u2029"], ids=["STR-13-LS", "STR-13-NEL", "STR-13-PS"])
def test_separators_are_escaped(text: str):
    frame = event(text)
    assert not any(mark in frame.decode() for mark in "\u2028\u2029\u0085")
    assert json.loads(frame.removeprefix(b"data: ")) == text


@given(TEXT, st.integers(0, 2000), TEXT)
def test_a_template_writes_what_the_encoder_writes(text: str, number: int, name: str):
    head = json.dumps({"id": name}, ensure_ascii=False, separators=(",", ":")).encode()[:-1] + b',"n":'
    template = Template(head, b',"text":', b"}")
    assert template.fill(number, text) == event({"id": name, "n": number, "text": text})
