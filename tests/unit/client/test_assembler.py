"""One sibling's deltas become chunks and text: order, stop strings, what is cut with them, why it ended."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import EngineFault
from engine.client.admit import Admitted, TextRules
from engine.client.assembler import FINISH_WORDS, Assembler
from engine.client.collector import StreamOutputCollector
from engine.client.logprobs import count_rows
from engine.wire.chunk import Chunk
from engine.wire.output import Delta, FinishReason, LogprobRows
from engine.wire.request import Sampling
from engine.wire.tokens import pack_ints, unpack
from tests.fakes.piece_tokenizer import PieceTokenizer
from tests.fakes.scripted_core import logprob_rows

EOS = 0
END, LENGTH, ABORT = FinishReason.END, FinishReason.LENGTH, FinishReason.ABORT


def rows(tokens: Sequence[int]) -> LogprobRows:
    return logprob_rows([[(token, -float(token)), (token + 1, -0.5)] for token in tokens], [2] * len(tokens))


class Answer:
    """An assembler that is fed deltas, read through a collector at any cadence."""

    def __init__(
        self,
        pieces: Sequence[str | bytes],
        *,
        specials: dict[int, str] | None = None,
        text: bool = True,
        **rules: object,
    ) -> None:
        self.tokenizer = PieceTokenizer(pieces, specials)
        fields = {name: rules.pop(name) for name in ("own_ends", "prompt_only") if name in rules}
        admitted = Admitted(
            array("i", [1]),
            (Sampling(max_tokens=99),),
            TextRules(**rules) if text else None,  # type: ignore[arg-type]
            fields.pop("own_ends", (EOS,)),  # type: ignore[arg-type]
            **fields,  # type: ignore[arg-type]
        )
        self.assembler = Assembler(0, admitted, self.tokenizer)
        self.collector = StreamOutputCollector()
        self.taken: list[Chunk] = []
        self.start = 0

    def put(self, tokens: Sequence[int], finish: FinishReason | None = None, logprobs: bool = False) -> None:
        delta = Delta(1, 1, self.start, pack_ints(tokens), finish, logprobs=rows(tokens) if logprobs else None)
        self.start += len(tokens)
        chunk = self.assembler.accept(delta, 1.0)
        if chunk is not None:
            self.collector.put_nowait(chunk)

    def take(self) -> str | None:
        """The text of what waits."""
        chunk = self.collector.get_nowait()
        if chunk is None:
            return None
        chunk = self.assembler.finish_text(chunk)
        self.taken.append(chunk)
        return chunk.text

    @property
    def text(self) -> str:
        while self.take() is not None:
            pass
        return "".join(chunk.text or "" for chunk in self.taken)

    @property
    def tokens(self) -> list[int]:
        return [token for chunk in self.taken for token in chunk.token_ids]

    @property
    def last(self) -> Chunk:
        return self.taken[-1]


class TestOrder:
    def test_a_repeat_is_dropped_and_the_rest_of_an_overlap_kept(self) -> None:
        answer = Answer("abcdefgh")
        answer.put([1, 2, 3])
        for start, tokens in [(0, [1, 2, 3]), (1, [2, 3, 4]), (4, [5]), (2, [3])]:
            chunk = answer.assembler.accept(Delta(1, 1, start, pack_ints(tokens)), 1.0)
            if chunk is not None:
                answer.collector.put_nowait(chunk)
        assert answer.text == "bcdef" and answer.tokens == [1, 2, 3, 4, 5]

    def test_log_probabilities_of_an_overlap_are_cut_with_its_tokens(self) -> None:
        answer = Answer("abcdefgh")
        answer.put([1, 2], logprobs=True)
        chunk = answer.assembler.accept(Delta(1, 1, 1, pack_ints([2, 3]), logprobs=rows([2, 3])), 1.0)
        assert chunk is not None and chunk.logprobs == rows([3])

    def test_a_gap_is_a_fault(self) -> None:
        answer = Answer("abcdefgh")
        with pytest.raises(EngineFault, match="lost"):
            answer.assembler.accept(Delta(1, 1, 1, pack_ints([2])), 1.0)

    def test_a_repeat_that_ends_the_answer_ends_it(self) -> None:
        answer = Answer("abcdefgh")
        answer.put([1, 2])
        chunk = answer.assembler.accept(Delta(1, 1, 0, pack_ints([1, 2]), LENGTH), 1.0)
        assert chunk is not None and chunk.finished and not chunk.token_ids

    def test_another_attempts_delta_is_dropped(self) -> None:
        answer = Answer("abcdefgh")
        assert answer.assembler.accept(Delta(1, 0, 0, pack_ints([1])), 1.0) is None
        assert answer.assembler.num_tokens == 0

    def test_columns_that_contradict_the_tokens_are_a_fault(self) -> None:
        with pytest.raises(EngineFault):
            Answer("abc").assembler.accept(Delta(1, 1, 0, pack_ints([1, 2]), logprobs=rows([1])), 1.0)

    def test_what_the_cache_gave_is_told_once_with_the_first_tokens(self) -> None:
        assembler = Answer("abc").assembler
        scored = Delta(1, 1, 0, b"", num_cached=8, prompt_logprobs=rows([1]))
        assert assembler.accept(scored, 1.0) is None
        first, second = (assembler.accept(Delta(1, 1, at, pack_ints([1])), 1.0) for at in (0, 1))
        assert first is not None and second is not None
        assert (first.num_cached_tokens, second.num_cached_tokens) == (8, None)
        assert assembler.prompt_logprobs == [rows([1])]


class TestEnding:
    def test_STR_08_every_reason_has_one_public_word(self) -> None:
        assert FINISH_WORDS == {END: "stop", LENGTH: "length", ABORT: "abort"}
        assert FINISH_WORDS.keys() == set(FinishReason)

    @pytest.mark.parametrize("finish", FinishReason)
    def test_STR_08_the_last_chunk_carries_it(self, finish: FinishReason) -> None:
        answer = Answer("abc")
        answer.put([1])
        answer.put([2], finish)
        assert answer.text and answer.last.finished and answer.last.finish_reason == FINISH_WORDS[finish]

    @pytest.mark.parametrize("rules", [{}, {"stop": ("zzz",)}], ids=["lazy", "with-stop-strings"])
    def test_the_models_own_end_id_is_a_token_and_no_text(self, rules: dict[str, object]) -> None:
        answer = Answer(["</s>", "a", "b"], **rules)
        answer.put([1, 2, EOS], END)
        assert answer.text == "ab" and answer.tokens == [1, 2, EOS] and answer.last.stop_reason is None

    @pytest.mark.parametrize("rules", [{}, {"stop": ("zzz",)}], ids=["lazy", "with-stop-strings"])
    def test_a_stop_token_id_is_the_stop_reason_and_no_text_unless_asked_for(self, rules: dict[str, object]) -> None:
        hidden, shown = Answer("_ab", **rules), Answer("_ab", include_stop=True, **rules)
        for answer in (hidden, shown):
            answer.put([1, 2], END)
        assert (hidden.text, shown.text) == ("a", "ab")
        assert hidden.last.stop_reason == shown.last.stop_reason == 2

    def test_the_models_end_id_is_a_stop_reason_where_eos_is_ignored(self) -> None:
        answer = Answer("_ab", own_ends=())
        answer.put([1, EOS], END)
        assert answer.text == "a" and answer.last.stop_reason == EOS

    @pytest.mark.parametrize("tail", [[], [2]], ids=["alone", "after-another-token"])
    def test_an_end_that_waits_with_other_tokens_is_cut_from_the_text_alone(self, tail: list[int]) -> None:
        answer = Answer(["</s>", "a", "b"])
        answer.put([1])
        answer.put([*tail, EOS], END)
        assert answer.text == ("ab" if tail else "a") and answer.tokens == [1, *tail, EOS]

    def test_STP_02_what_waits_for_more_bytes_is_told_at_the_end(self) -> None:
        answer = Answer(["", "", "a", "é".encode()[:1]])
        answer.put([2, 3], LENGTH)
        assert answer.text == "a\ufffd"

    def test_nothing_comes_after_the_end(self) -> None:
        answer = Answer("abc")
        answer.put([1], LENGTH)
        assert answer.assembler.accept(Delta(1, 1, 1, pack_ints([2]), END), 1.0) is None

    def test_LEN_07_where_only_the_prompt_was_asked_for_the_drawn_token_is_dropped(self) -> None:
        for finish, word in [(LENGTH, "length"), (END, "length"), (ABORT, "abort")]:
            answer = Answer("abc", prompt_only=True, stop=("b",))
            answer.put([1], finish, logprobs=True)
            assert answer.text == "" and answer.last.finish_reason == word
            assert not answer.last.token_ids and answer.last.logprobs is None

    def test_without_a_decoder_text_stays_unknown(self) -> None:
        answer = Answer("abc", text=False)
        answer.put([1, EOS], END)
        assert answer.take() is None and answer.last.token_ids.tolist() == [1, EOS]


class TestStopStrings:
    def test_STP_01_no_beginning_of_a_stop_string_is_sent(self) -> None:
        answer = Answer(["JKL", "MN", "O", "PQ", "R", "S"], stop=("MNOPQR",))
        sent = []
        for token in range(6):
            answer.put([token])
            sent.append(answer.take() or "")
        assert sent == ["JKL", "", "", "", "", ""]
        assert answer.last.finish_reason == "stop" and answer.last.stop_reason == "MNOPQR"

    @pytest.mark.parametrize(("finish", "text"), [(END, "hello XY"), (LENGTH, "hello XY"), (ABORT, "hello XY")])
    def test_STP_02_a_held_back_tail_is_told_when_it_ends_otherwise(self, finish: FinishReason, text: str) -> None:
        answer = Answer(["", "hello ", "XY", "</s>"], stop=("XYZ!",), own_ends=(3,))
        answer.put([1])
        answer.put([2])
        answer.put([3] if finish is END else [], finish)
        assert answer.text == text and answer.last.finish_reason == FINISH_WORDS[finish]
        assert answer.tokens == ([1, 2, 3] if finish is END else [1, 2])

    @pytest.mark.parametrize(("include", "text", "tokens"), [(False, "hel", [0]), (True, "hello w", [0, 1])])
    def test_STP_03_a_match_in_mid_token_cuts_text_tokens_and_logprobs_at_one_place(
        self, include: bool, text: str, tokens: list[int]
    ) -> None:
        answer = Answer(["hel", "lo wor", "ld"], stop=("lo w",), include_stop=include)
        for token in range(3):
            answer.put([token], logprobs=True)
        assert answer.text == text and answer.tokens == tokens
        assert sum(count_rows(chunk.logprobs) for chunk in answer.taken if chunk.logprobs) == len(tokens)

    def test_STP_03_a_token_whose_text_is_cut_in_two_stays(self) -> None:
        answer = Answer(["say ab", "c"], stop=("bc",))
        answer.put([0, 1])
        assert answer.text == "say a" and answer.tokens == [0]

    def test_STP_05_an_end_id_that_a_stop_string_names_is_reported_by_that_name(self) -> None:
        names = {"stop": ("<end>",), "stop_names": {2: "<end>"}, "own_ends": (EOS, 2)}
        answer = Answer(["", "ok", "?"], specials={2: "<end>"}, **names)
        answer.put([1, 2], END)
        assert answer.text == "ok" and answer.last.stop_reason == "<end>"
        answer = Answer(["", "ok", "?"], specials={2: "<end>"}, include_stop=True, **names)
        answer.put([1, 2], END)
        assert answer.text == "ok<end>" and answer.last.stop_reason == "<end>"

    def test_text_of_the_first_min_tokens_matches_nothing(self) -> None:
        answer = Answer("_ab", stop=("a",), min_tokens=2)
        for token in (1, 1, 2, 1, 2):
            answer.put([token])
        assert answer.text == "aab" and answer.last.finish_reason == "stop"

    def test_a_chunk_that_would_be_empty_is_not_sent(self) -> None:
        """STR-10."""
        answer = Answer(["I", "\nE", "x"], stop=("\nEND",))
        answer.put([0])
        answer.put([1])
        assert answer.take() == "I" and answer.take() is None
        answer.put([2])
        assert answer.take() == "\nEx" and answer.last.token_ids.tolist() == [1, 2]

    def test_nothing_is_held_back_where_the_stop_string_is_shown(self) -> None:
        answer = Answer(["a", "ST", "OP", "b"], stop=("STOP",), include_stop=True)
        for token, text in enumerate(["a", "ST", "OP"]):
            answer.put([token])
            assert answer.take() == text
        assert answer.last.finished


PIECES: list[str | bytes] = [
    "",
    "a",
    "b",
    "ab",
    "ba ",
    " c",
    "é",
    "é".encode()[:1],
    "é".encode()[1:],
    b"\xff",
    "😀",
    "<x>",
]
SPECIAL = 11


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[int], FinishReason, dict[str, object]]:
    tokens = draw(st.lists(st.integers(1, len(PIECES) - 1), max_size=25))
    finish = draw(st.sampled_from([END, LENGTH]))
    stop = tuple(draw(st.lists(st.text("ab cé", min_size=1, max_size=3), max_size=3)))
    rules = {"stop": stop, "include_stop": draw(st.booleans()), "min_tokens": draw(st.integers(0, 4))}
    return [*tokens, EOS] if finish is END else tokens, finish, rules


def play(
    script: tuple[list[int], FinishReason, dict[str, object]], cuts: Sequence[int], reads: Sequence[bool]
) -> Answer:
    """The script in deltas of `cuts` tokens; after each, one read where `reads` says so."""
    tokens, finish, rules = script
    answer = Answer(PIECES, specials={SPECIAL: "<x>"}, **rules)
    at = 0
    for cut, read in zip([*cuts, len(tokens)], [*reads, False], strict=False):
        part = tokens[at : at + cut]
        at += cut
        is_last = at >= len(tokens)
        answer.put(part, finish if is_last else None, logprobs=True)
        if read:
            answer.take()
        if is_last or answer.assembler.is_finished:
            break
    assert answer.text is not None
    return answer


@given(data=st.data(), script=scripts())
def test_any_cutting_and_any_reading_gives_the_same_answer(data: st.DataObject, script: tuple) -> None:
    """Re-chunking the same tokens changes neither text, tokens, log probabilities nor the reason."""
    size = len(script[0]) + 1
    cuts = data.draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
    reads = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    whole, cut = play(script, [10**6], []), play(script, cuts, reads)
    assert cut.text == whole.text and cut.tokens == whole.tokens
    assert (cut.last.finish_reason, cut.last.stop_reason) == (whole.last.finish_reason, whole.last.stop_reason)
    for answer in (whole, cut):
        for chunk in answer.taken:
            held = 0 if chunk.logprobs is None else count_rows(chunk.logprobs)
            assert held == len(chunk.token_ids), "LGP-09"
            assert chunk.logprobs is None or unpack(chunk.logprobs.ids)[::2] == chunk.token_ids


@given(script=scripts())
def test_without_a_match_the_text_is_the_decoding_of_all_tokens(script: tuple) -> None:
    tokens, _, rules = script
    answer = play(script, [10**6], [])
    shown = [token for token in tokens if token != EOS]
    text = answer.tokenizer.decode(shown)
    assert text.startswith(answer.text)
    if answer.last.stop_reason is None:
        assert answer.text == text and answer.tokens == tokens
    else:
        assert answer.tokens == tokens[: len(answer.tokens)]
        assert not rules["include_stop"] or answer.text.endswith(str(answer.last.stop_reason))


@given(script=scripts())
def test_no_stop_string_is_left_in_the_text_once_min_tokens_are_over(script: tuple) -> None:
    rules = script[2]
    rules["min_tokens"] = 0
    answer = play(script, [10**6], [])
    if not rules["include_stop"]:
        assert not any(stop in answer.text for stop in rules["stop"])
