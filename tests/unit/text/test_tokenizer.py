"""Text to tokens: against the library itself, and what must never happen to special tokens and BOS."""

from __future__ import annotations

import threading
from array import array
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import ClientError, ModelFileError
from engine.text import Tokenizer, load_tokenizer
from tests.oracles.tiny_tokenizer import SPECIALS, tiny_gguf_vocabulary, tiny_spm_json, tiny_tokenizer_json
from tests.unit.text.builders import (
    byte_level,
    byte_level_gguf,
    folder_file,
    from_json,
    gguf_file,
    reference,
    sentencepiece,
    sentencepiece_gguf,
    spm_of,
    texts,
    with_post_processor,
)

SOURCES = {"byte-level": (byte_level, tiny_tokenizer_json), "sentencepiece": (sentencepiece, tiny_spm_json)}
KINDS = pytest.mark.parametrize("kind", SOURCES)
EVERY = {**{name: pair[0] for name, pair in SOURCES.items()}, "gguf": byte_level_gguf, "spm-gguf": sentencepiece_gguf}


@KINDS
@pytest.mark.parametrize("parse_special", [True, False])
@given(text=texts())
def test_encode_is_the_librarys_for_parsed_and_for_plain_text(kind: str, parse_special: bool, text: str) -> None:
    tokenizer, source = SOURCES[kind][0](), SOURCES[kind][1]()
    expected = reference(source, parse_special=parse_special).encode(text, add_special_tokens=False).ids
    assert tokenizer.encode(text, add_special_tokens=False, parse_special=parse_special).tolist() == expected


@given(text=texts(), parse_special=st.booleans())
def test_a_gguf_file_tokenizes_as_the_tokenizer_json_it_came_from(text: str, parse_special: bool) -> None:
    from_gguf = byte_level_gguf().encode(text, parse_special=parse_special)
    assert from_gguf == byte_level().encode(text, parse_special=parse_special)


@pytest.mark.parametrize("kind", EVERY)
@given(text=texts())
def test_special_tokens_in_a_text_stay_text_unless_parsed(kind: str, text: str) -> None:
    tokenizer = EVERY[kind]()
    unknown = tokenizer.id_of("<unk>")
    assert tokenizer.special_ids.isdisjoint(set(tokenizer.encode(text, add_special_tokens=False)) - {unknown})


@pytest.mark.parametrize("kind", EVERY)
@given(text=texts())
def test_decode_gives_back_the_text(kind: str, text: str) -> None:
    tokenizer = EVERY[kind]()
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


@KINDS
def test_long_texts_are_encoded_as_short_ones_are(kind: str) -> None:
    tokenizer, source = SOURCES[kind][0](), SOURCES[kind][1]()
    text = "the quick <|im_end|> brown 😀\n" * 300
    expected = reference(source, parse_special=True).encode(text, add_special_tokens=False).ids
    assert tokenizer.encode(text, add_special_tokens=False, parse_special=True).tolist() == expected


def test_tokens_are_an_int_array() -> None:
    assert byte_level().encode("hello").typecode == "i"


class TestBos:
    """TOK-01: one BOS, whoever puts it there."""

    @pytest.fixture(params=["gguf", "post-processor", "config"])
    def tokenizer(self, request: pytest.FixtureRequest) -> Tokenizer:
        if request.param == "gguf":
            return load_tokenizer(gguf_file(tiny_gguf_vocabulary() | {"tokenizer.ggml.add_bos_token": True}), None)
        if request.param == "config":
            return from_json(tiny_tokenizer_json(), bos_token="<s>", add_bos_token=True)
        return from_json(with_post_processor(tiny_tokenizer_json(), "<s>", SPECIALS.index("<s>")), bos_token="<s>")

    def test_TOK_01_a_text_gets_one_bos(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.encode("hi")[:1] == array("i", [tokenizer.bos_id])
        assert tokenizer.encode("hi").count(tokenizer.bos_id) == 1

    def test_TOK_01_a_text_that_begins_with_bos_gets_no_second_one(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.encode("<s>hi", parse_special=True) == tokenizer.encode("hi")

    def test_TOK_01_bos_written_as_text_is_not_a_bos(self, tokenizer: Tokenizer) -> None:
        tokens = tokenizer.encode("<s>hi")
        assert tokens.count(tokenizer.bos_id) == 1
        assert tokenizer.decode(tokens) == "<s>hi"

    def test_without_special_tokens_there_is_none(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.bos_id not in tokenizer.encode("hi", add_special_tokens=False)


def test_config_that_says_no_bos_wins_over_the_post_processor() -> None:
    source = with_post_processor(tiny_tokenizer_json(), "<s>", SPECIALS.index("<s>"))
    tokenizer = from_json(source, bos_token="<s>", add_bos_token=False)
    assert tokenizer.bos_id not in tokenizer.encode("hi")


def test_a_gguf_file_that_wants_eos_gets_it_at_the_end() -> None:
    tokenizer = load_tokenizer(gguf_file(tiny_gguf_vocabulary() | {"tokenizer.ggml.add_eos_token": True}), None)
    assert tokenizer.encode("hi")[-1] == tokenizer.eos_id


def test_sentencepiece_wants_a_bos_where_the_file_does_not_say() -> None:
    assert sentencepiece_gguf().encode("hi")[0] == sentencepiece_gguf().bos_id


def test_tokens_named_by_the_config_alone_are_special_too() -> None:
    tokenizer = from_json(tiny_tokenizer_json(), eos_token="he")
    assert tokenizer.eos_id in tokenizer.special_ids
    assert tokenizer.decode(array("i", [tokenizer.eos_id])) == ""


class TestSinglePieces:
    def test_bytes_of_all_tokens_of_a_text_are_its_bytes(self) -> None:
        text = "naïve 😀 <s> \n"
        tokens = byte_level().encode(text)
        assert b"".join(map(byte_level().token_bytes, tokens)) == text.encode()

    def test_special_tokens_and_unknown_ids_have_no_bytes(self) -> None:
        tokenizer = byte_level()
        assert {tokenizer.token_bytes(token) for token in (*tokenizer.special_ids, tokenizer.vocab_size, -1)} == {b""}

    def test_byte_tokens_are_bytes(self) -> None:
        assert sentencepiece().token_bytes(sentencepiece().id_of("<0xF0>")) == b"\xf0"

    def test_text_of_a_token_shows_specials_and_leading_spaces(self) -> None:
        tokenizer = sentencepiece()
        assert [tokenizer.token_text(tokenizer.id_of(text)) for text in ("<s>", "▁the", "<0xF0>")] == [
            "<s>",
            " the",
            "�",
        ]

    def test_no_token_has_more_bytes_than_said(self) -> None:
        tokenizer = byte_level()
        sizes = [len(tokenizer.token_bytes(token)) for token in range(tokenizer.vocab_size)]
        assert max(sizes) == tokenizer.max_token_bytes

    def test_id_of_unknown_text_is_none(self) -> None:
        assert byte_level().id_of("no such token") is None


def test_info_speaks_the_words_of_tokenizer_config() -> None:
    info = byte_level_gguf().info()
    assert {key: info[key] for key in ("bos_token", "eos_token", "vocab_size", "eos_token_id", "add_bos_token")} == {
        "bos_token": "<s>",
        "eos_token": "<|im_end|>",
        "vocab_size": 560,
        "eos_token_id": 2,
        "add_bos_token": False,
    }
    assert "im_start" in str(info["chat_template"])


def test_end_ids_are_eos_and_end_of_turn() -> None:
    keys = tiny_gguf_vocabulary() | {"tokenizer.ggml.eot_token_id": SPECIALS.index("<|endoftext|>")}
    assert load_tokenizer(gguf_file(keys), None).end_ids == {0, 2}


def test_pieces_of_a_text_never_merge_into_a_special_token() -> None:
    tokenizer = spm_of(["<", "s", ">", "<s"])
    assert tokenizer.special_ids.isdisjoint(tokenizer.encode("<s>", add_special_tokens=False))


@pytest.mark.parametrize("length", [1, 5000])
def test_half_a_surrogate_pair_is_the_clients_mistake(length: int) -> None:
    with pytest.raises(ClientError, match="surrogate"):
        byte_level().encode("\ud83d" * length)


def test_half_a_surrogate_pair_is_no_token() -> None:
    assert byte_level().id_of("\ud83d") is None


def test_user_defined_tokens_are_matched_whole_and_are_no_specials() -> None:
    keys = tiny_gguf_vocabulary()
    kinds = list(keys["tokenizer.ggml.token_type"])  # type: ignore[call-overload]
    kinds[SPECIALS.index("<pad>")] = 4
    tokenizer = load_tokenizer(gguf_file(keys | {"tokenizer.ggml.token_type": kinds}), None)
    assert tokenizer.encode("a<pad>b").tolist()[1] == SPECIALS.index("<pad>")
    assert tokenizer.decode(tokenizer.encode("a<pad>b")) == "a<pad>b"


def test_specials_that_swallow_white_space_do_so() -> None:
    source = tiny_tokenizer_json().replace(
        '"content":"<pad>","single_word":false,"lstrip":false,"rstrip":false',
        '"content":"<pad>","single_word":false,"lstrip":true,"rstrip":true',
    )
    expected = reference(source, parse_special=True).encode("a  <pad> \n b", add_special_tokens=False).ids
    assert len(expected) == 3
    assert from_json(source).encode("a  <pad> \n b", parse_special=True).tolist() == expected


def test_an_unknown_pre_tokenizer_is_refused_by_name() -> None:
    with pytest.raises(ModelFileError, match="mystery-bpe"):
        load_tokenizer(gguf_file(tiny_gguf_vocabulary() | {"tokenizer.ggml.pre": "mystery-bpe"}), None)


def test_a_broken_tokenizer_json_is_refused_by_path(tmp_path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{")
    with pytest.raises(ModelFileError, match=str(path)):
        load_tokenizer(folder_file(path), None)


def test_a_decoder_of_another_kind_is_refused_by_name() -> None:
    source = tiny_tokenizer_json().replace(
        '"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}',
        '"decoder":{"type":"WordPiece","prefix":"##","cleanup":true}',
    )
    with pytest.raises(ModelFileError, match="WordPiece"):
        from_json(source)


def test_encoding_a_long_text_lets_other_threads_run() -> None:
    text = "the quick brown fox " * 20_000
    worker = threading.Thread(target=byte_level().encode, args=(text,))
    start = now = perf_counter()
    longest_wait = 0.0
    worker.start()
    while worker.is_alive():
        now, before = perf_counter(), now
        longest_wait = max(longest_wait, now - before)
    # Were the GIL held, this thread would wait for nearly all of it.
    assert longest_wait < (now - start) / 2


def test_threads_that_parse_and_threads_that_do_not_never_disturb_each_other() -> None:
    tokenizer, text = byte_level(), "<|im_start|>user\nhello <|im_end|>" * 20
    expected = {parse: tokenizer.encode(text, parse_special=parse) for parse in (True, False)}
    with ThreadPoolExecutor(4) as pool:
        choices = [index % 2 == 0 for index in range(200)]
        found = list(pool.map(lambda parse: tokenizer.encode(text, parse_special=parse), choices))
    assert found == [expected[parse] for parse in choices]
