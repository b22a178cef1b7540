"""Folding any split of a stream equals delivering it unfolded: at every depth, cadence, and cut of the text."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.client.collector import StreamOutputCollector
from engine.client.fold import merge_chunk
from engine.wire.chunk import Chunk
from tests.fakes.scripted_core import logprob_rows
from tests.oracles.merge_reference import DictCollector, as_dict, extend_in_place, plain_chunks, rebuild

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
TOKENS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3)


@st.composite
def streams(draw: st.DrawFn, siblings: int) -> list[Chunk]:
    """Chunks of all siblings interleaved; each sibling is all with text, all without, or all with log probabilities."""
    kinds = [draw(st.sampled_from(["text", "plain", "logprobs", "mixed"])) for _ in range(siblings)]
    chunks: list[Chunk] = []
    for time in range(draw(st.integers(1, 30))):
        index = draw(st.integers(0, siblings - 1))
        tokens = array("i", draw(TOKENS))
        kind = kinds[index]
        text = draw(TEXTS) if kind in ("text", "logprobs") else draw(st.none() | TEXTS) if kind == "mixed" else None
        rows = logprob_rows([[(token, -0.5)] for token in tokens], [1] * len(tokens)) if kind == "logprobs" else None
        cached = draw(st.none() | st.integers(1, 9)) if time < 3 else None
        reason = draw(st.sampled_from([None, None, None, "length"]))
        chunks.append(Chunk(index, tokens, text, False, reason, None, rows, cached, float(time), float(time) + 0.5))
    for index in range(siblings):
        last = len(chunks) + 1.0
        chunks.append(Chunk(index, array("i"), None, True, "stop", None, None, None, last, last))
    return chunks


def whole(parts: list[dict[str, Any]], index: int) -> dict[str, Any]:
    """All parts of one sibling, put together; a reader's view of the stream."""
    own = [part for part in parts if part["index"] == index]
    return {
        "token_ids": [token for part in own for token in part["token_ids"]],
        "text": "".join(part["text"] for part in own),
        "logprobs": [row for part in own for row in part.get("logprobs", [])],
        "finished": [part["finished"] for part in own],
        "finish_reason": [part["finish_reason"] for part in own if "finish_reason" in part][-1:],
        "num_cached_tokens": [part["num_cached_tokens"] for part in own if "num_cached_tokens" in part][-1:],
        "first": own[0]["first_token_time"],
        "last": own[-1]["last_token_time"],
    }


@given(data=st.data(), siblings=st.integers(1, 4))
def test_DIS_12_every_drain_cadence_gives_what_the_reference_gives(data: st.DataObject, siblings: int) -> None:
    chunks = data.draw(streams(siblings))
    ours, references = StreamOutputCollector(siblings), [DictCollector(rebuild), DictCollector(extend_in_place)]
    taken: list[dict[str, Any]] = []
    expected: list[list[dict[str, Any]]] = [[], []]
    for chunk in chunks:
        ours.put_nowait(chunk)
        for reference in references:
            reference.put_nowait(as_dict(chunk))
        for _ in range(data.draw(st.integers(0, siblings))):
            if (out := ours.get_nowait()) is not None:
                taken.append(as_dict(out))
            for reference, seen in zip(references, expected, strict=True):
                if (found := reference.get_nowait()) is not None:
                    seen.append(found)
    while (out := ours.get_nowait()) is not None:
        taken.append(as_dict(out))
    for reference, seen in zip(references, expected, strict=True):
        while (found := reference.get_nowait()) is not None:
            seen.append(found)
    assert taken == expected[0] == expected[1]
    unfolded = [as_dict(chunk) for chunk in chunks]
    for index in range(siblings):
        got, sent = whole(taken, index), whole(unfolded, index)
        assert got.pop("finished")[-1] and sent.pop("finished")[-1]
        assert got == sent
    assert ours.is_done


@given(data=st.data())
def test_the_written_out_fast_path_folds_as_merge_chunk_does(data: st.DataObject) -> None:
    chunks = data.draw(streams(1))
    written, called = StreamOutputCollector(), StreamOutputCollector()
    called.put_nowait(chunks[0])
    for chunk in chunks:
        written.put_nowait(chunk)
    for chunk in chunks[1:]:
        merge_chunk(called.pending[0], chunk)
    assert written.get_nowait() == called.get_nowait()


@settings(max_examples=15)
@given(depth=st.integers(1, 500), text=st.text(min_size=1, max_size=300), cut=st.integers(1, 7))
def test_a_text_cut_anywhere_comes_out_byte_for_byte(depth: int, text: str, cut: int) -> None:
    """Code points may be cut from their combining marks, surrogates may stand alone: a fold looks at none."""
    collector = StreamOutputCollector()
    pieces = [text[at : at + cut] for at in range(0, len(text), cut)]
    pieces = (pieces * (depth // len(pieces) + 1))[:depth]
    for number, piece in enumerate(pieces):
        collector.put_nowait(Chunk(0, array("i", [number]), piece))
    folded = collector.get_nowait()
    assert folded is not None and folded.text == "".join(pieces) and folded.token_ids.tolist() == list(range(depth))


@pytest.mark.parametrize("depth", [1, 2, 3, 63, 64, 65, 66, 127, 128, 129, 500, 5000])
def test_depths_around_each_compaction_lose_nothing(depth: int) -> None:
    collector, reference = StreamOutputCollector(), DictCollector(extend_in_place)
    for chunk in plain_chunks(depth, "añ😀"):
        collector.put_nowait(chunk)
        reference.put_nowait(as_dict(chunk))
    folded = collector.get_nowait()
    assert folded is not None and as_dict(folded) == reference.get_nowait()
