"""Tokens to text: a stream says what the batch says, at once, and never takes a word back."""

from __future__ import annotations

from array import array
from itertools import chain, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text import Detokenizer, Tokenizer
from tests.oracles.tiny_tokenizer import tiny_spm_json, tiny_tokenizer_json
from tests.unit.text.builders import (
    byte_level,
    byte_level_gguf,
    from_json,
    ids,
    reference,
    sentencepiece,
    sentencepiece_gguf,
    spm_of,
    texts,
)

EVERY = {
    "byte-level": byte_level,
    "sentencepiece": sentencepiece,
    "gguf": byte_level_gguf,
    "spm-gguf": sentencepiece_gguf,
    "spm-no-prefix": lambda: spm_of(["▁", "▁a", "b"], prefix=False, specials=("<|x|>",)),
}
KINDS = pytest.mark.parametrize("kind", EVERY)
# Continuations that tell apart all that may follow the first bytes of a character (Unicode 15, table 3-7).
NEXT = [bytes(tail) for size in range(4) for tail in product(b"\x80\x8f\x90\x9f\xa0\xbfa\xff", repeat=size)]


@st.composite
def sequences(draw: st.DrawFn, tokenizer: Tokenizer) -> array[int]:
    """Tokens of real text, any ids, byte fragments; also ids beyond the vocabulary."""
    anything = st.integers(0, tokenizer.vocab_size + 3)
    runs = st.one_of(
        texts().map(lambda text: tokenizer.encode(text, add_special_tokens=False, parse_special=True).tolist()),
        st.lists(anything, max_size=10),
        st.lists(st.integers(3, 259), max_size=6),
    )
    return array("i", chain.from_iterable(draw(st.lists(runs, max_size=4))))


def stream(detokenizer: Detokenizer, tokens: array[int], cuts: list[int]) -> list[str]:
    """What each push returns, then the flush."""
    edges = sorted({0, len(tokens), *(cut % (len(tokens) + 1) for cut in cuts)})
    pieces = [detokenizer.push(tokens[start:end]) for start, end in pairwise(edges)]
    return [*pieces, detokenizer.flush()]


@KINDS
@given(data=st.data(), cuts=st.lists(st.integers(0, 100), max_size=8), skip=st.booleans())
def test_any_cut_of_any_tokens_reads_as_the_batch(kind: str, data: st.DataObject, cuts: list[int], skip: bool) -> None:
    tokenizer = EVERY[kind]()
    tokens = data.draw(sequences(tokenizer))
    parts = stream(Detokenizer(tokenizer, skip_special_tokens=skip), tokens, cuts)
    assert "".join(parts) == tokenizer.decode(tokens, skip_special_tokens=skip)


@KINDS
@given(data=st.data())
def test_token_by_token_reads_as_the_batch(kind: str, data: st.DataObject) -> None:
    tokenizer = EVERY[kind]()
    tokens = data.draw(sequences(tokenizer))
    parts = stream(Detokenizer(tokenizer), tokens, list(range(len(tokens))))
    assert "".join(parts) == tokenizer.decode(tokens)


@KINDS
@given(data=st.data())
def test_after_each_push_all_that_is_certain_is_said(kind: str, data: st.DataObject) -> None:
    """What is certain: the longest beginning that all ways to go on have in common."""
    tokenizer = EVERY[kind]()
    tokens = data.draw(sequences(tokenizer))[:12]
    detokenizer = Detokenizer(tokenizer)
    said = ""
    for end in range(1, len(tokens) + 1):
        said += detokenizer.push(tokens[end - 1 : end])
        assert said == certain(spelt(tokenizer, tokens[:end]))


def spelt(tokenizer: Tokenizer, tokens: array[int]) -> bytes:
    """All bytes of the tokens, without the spaces that are the tokenizer's own."""
    first = tokenizer.encode("a", add_special_tokens=False)[0]
    has_prefix = tokenizer.token_bytes(first).startswith(b" ")
    out, begins = b"", has_prefix
    for token in tokens:
        piece = tokenizer.token_bytes(token)
        if token in tokenizer.special_ids:
            begins = has_prefix
        elif piece:
            out += piece.removeprefix(b" ") if begins else piece
            begins = False
    return out


def certain(data: bytes) -> str:
    readings = [(data + more).decode(errors="replace") for more in NEXT]
    shortest = min(readings, key=len)
    return next(shortest[:size] for size in range(len(shortest), -1, -1) if all_begin(readings, shortest[:size]))


def all_begin(readings: list[str], text: str) -> bool:
    return all(reading.startswith(text) for reading in readings)


@pytest.mark.parametrize(("kind", "source"), [("byte-level", tiny_tokenizer_json), ("sentencepiece", tiny_spm_json)])
@given(text=texts())
def test_batch_decode_is_the_librarys_for_the_tokens_of_a_text(kind: str, source, text: str) -> None:
    tokenizer = EVERY[kind]()
    tokens = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(tokens) == reference(source(), parse_special=False).decode(list(tokens))


@given(data=st.data(), skip=st.booleans())
def test_batch_decode_of_any_byte_level_tokens_is_the_librarys(data: st.DataObject, skip: bool) -> None:
    tokens = data.draw(sequences(byte_level()))
    expected = reference(tiny_tokenizer_json(), parse_special=False).decode(list(tokens), skip_special_tokens=skip)
    assert byte_level().decode(tokens, skip_special_tokens=skip) == expected


class TestCutCharacters:
    """UNI-02: an answer that ends inside a character ends in one U+FFFD, streamed or not."""

    GRIN = "😀".encode()

    @pytest.mark.parametrize("size", [1, 2, 3])
    @pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
    def test_UNI_02_a_character_cut_off_is_one_replacement_character(self, kind: str, size: int) -> None:
        tokenizer = EVERY[kind]()
        tokens = tokens_of_bytes(tokenizer, self.GRIN[:size])
        parts = stream(Detokenizer(tokenizer), tokens, list(range(size)))
        assert parts == [*[""] * size, "�"]
        assert tokenizer.decode(tokens) == "�"

    def test_a_whole_character_comes_with_its_last_byte(self) -> None:
        tokens = tokens_of_bytes(sentencepiece(), self.GRIN)
        assert stream(Detokenizer(sentencepiece()), tokens, [1, 2, 3]) == ["", "", "", "😀", ""]

    def test_a_character_broken_by_text_is_replaced_before_the_text(self) -> None:
        tokens = tokens_of_bytes(sentencepiece(), self.GRIN[:2] + b"\n")
        assert stream(Detokenizer(sentencepiece()), tokens, [1, 2]) == ["", "", "�\n", ""]

    def test_bytes_that_begin_no_character_are_replaced_at_once(self) -> None:
        tokens = tokens_of_bytes(sentencepiece(), b"\xff\xc0")
        assert stream(Detokenizer(sentencepiece()), tokens, [1]) == ["�", "�", ""]

    def test_half_a_surrogate_is_replaced_at_once(self) -> None:
        tokens = tokens_of_bytes(sentencepiece(), b"\xed\xa0\x80")
        assert stream(Detokenizer(sentencepiece()), tokens, [1, 2]) == ["", "��", "�", ""]

    def test_a_hidden_token_inside_a_character_does_not_break_it(self) -> None:
        tokens = tokens_of_bytes(sentencepiece(), self.GRIN)
        tokens.insert(2, sentencepiece().eos_id)
        assert sentencepiece().decode(tokens) == "😀"

    def test_flush_leaves_nothing_behind(self) -> None:
        detokenizer = Detokenizer(sentencepiece())
        detokenizer.push(tokens_of_bytes(sentencepiece(), self.GRIN[:2]))
        assert (detokenizer.flush(), detokenizer.flush()) == ("�", "")


def tokens_of_bytes(tokenizer: Tokenizer, data: bytes) -> array[int]:
    """One token for each byte."""
    single = {tokenizer.token_bytes(token): token for token in reversed(range(tokenizer.vocab_size))}
    return array("i", [single[data[i : i + 1]] for i in range(len(data))])


class TestLeadingSpaces:
    def test_UNI_06_words_keep_their_spaces_one_token_at_a_time(self) -> None:
        tokenizer = spm_of(["▁the", "▁quick", "▁fox"])
        parts = stream(Detokenizer(tokenizer), ids(tokenizer, "▁the", "▁quick", "▁fox"), [1, 2])
        assert parts == ["the", " quick", " fox", ""]

    def test_UNI_07_text_after_a_control_token_has_no_extra_space(self) -> None:
        tokenizer = spm_of(["▁analysis"], specials=("<|channel|>",))
        tokens = ids(tokenizer, "<|channel|>", "▁analysis")
        parts = stream(Detokenizer(tokenizer, skip_special_tokens=False), tokens, [1])
        assert parts == ["<|channel|>", "analysis", ""]
        assert tokenizer.decode(tokens, skip_special_tokens=False) == "<|channel|>analysis"

    def test_UNI_07_hiding_the_control_token_changes_nothing_else(self) -> None:
        tokenizer = spm_of(["▁analysis"], specials=("<|channel|>",))
        assert tokenizer.decode(ids(tokenizer, "<|channel|>", "▁analysis")) == "analysis"

    def test_UNI_08_spaces_are_never_cleaned_up(self) -> None:
        tokenizer = spm_of(["▁▁▁", "!", "▁go"], prefix=False)
        parts = stream(Detokenizer(tokenizer), ids(tokenizer, "▁▁▁", "!", "▁go"), [1, 2])
        assert parts == ["   ", "!", " go", ""]

    def test_UNI_08_of_several_leading_spaces_one_is_the_tokenizers_own(self) -> None:
        tokenizer = spm_of(["▁▁▁", "!", "▁go"])
        assert tokenizer.decode(ids(tokenizer, "▁▁▁", "!", "▁go")) == "  ! go"

    @given(cuts=st.lists(st.integers(0, 9), max_size=4), more=st.lists(st.integers(0, 262), max_size=6))
    def test_UNI_08_what_was_said_begins_every_later_batch_decode(self, cuts: list[int], more: list[int]) -> None:
        tokenizer = spm_of(["▁▁▁", "!", "▁go"])
        tokens = ids(tokenizer, "▁▁▁", "!", "▁go") + array("i", more)
        detokenizer, said = Detokenizer(tokenizer), ""
        for end in range(1, len(tokens) + 1):
            said += detokenizer.push(tokens[end - 1 : end])
            assert tokenizer.decode(tokens[: end + 2]).startswith(said)

    def test_a_prefix_of_the_first_text_only_stays_after_control_tokens(self) -> None:
        """Metaspace with prepend_scheme `first`: encoding puts no space after a control token, decoding takes none."""
        source = tiny_spm_json()
        start, end = source.index('"normalizer": {'), source.index('"post_processor"')
        first = '{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false}'
        tokenizer = from_json(f'{source[:start]}"normalizer": null, "pre_tokenizer": {first}, {source[end:]}')
        text = "the<|im_end|>the <|im_end|> the"
        tokens = tokenizer.encode(text, add_special_tokens=False, parse_special=True)
        assert tokenizer.decode(tokens, skip_special_tokens=False) == text


class TestPromptTail:
    def test_a_continued_text_keeps_the_space_before_its_first_word(self) -> None:
        tokenizer = spm_of(["▁the", "▁quick"])
        detokenizer = Detokenizer(tokenizer, prompt_tail=ids(tokenizer, "<s>", "▁the"))
        assert detokenizer.push(ids(tokenizer, "▁quick")) == " quick"

    def test_a_text_after_a_control_token_begins_without_a_space(self) -> None:
        tokenizer = spm_of(["▁the", "▁quick"])
        detokenizer = Detokenizer(tokenizer, prompt_tail=ids(tokenizer, "▁the", "<s>"))
        assert detokenizer.push(ids(tokenizer, "▁quick")) == "quick"

    def test_a_character_begun_in_the_prompt_is_completed(self) -> None:
        grin = tokens_of_bytes(byte_level(), "😀".encode())
        detokenizer = Detokenizer(byte_level(), prompt_tail=grin[:2])
        assert detokenizer.push(grin[2:]) == "😀"

    @KINDS
    @given(data=st.data())
    def test_prompt_and_answer_together_read_as_one_text(self, kind: str, data: st.DataObject) -> None:
        tokenizer = EVERY[kind]()
        prompt, answer = data.draw(sequences(tokenizer)), data.draw(sequences(tokenizer))
        before = Detokenizer(tokenizer).push(prompt)
        after = "".join(stream(Detokenizer(tokenizer, prompt_tail=prompt), answer, [1, 2, 3]))
        assert before + after == tokenizer.decode(prompt + answer)


@KINDS
@given(data=st.data())
def test_spaces_between_special_tokens_reads_the_same_either_way(kind: str, data: st.DataObject) -> None:
    tokenizer = EVERY[kind]()
    tokens = data.draw(sequences(tokenizer))
    with_them, without = (
        Detokenizer(tokenizer, skip_special_tokens=False, spaces_between_special_tokens=choice).push(tokens)
        for choice in (True, False)
    )
    assert with_them == without


@KINDS
def test_what_waits_never_grows(kind: str) -> None:
    detokenizer = Detokenizer(EVERY[kind]())
    for token in range(3, 259):
        detokenizer.push(array("i", [token]))
        assert len(detokenizer.tail) <= 3
