from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from engine.tools.chat import events


@given(st.lists(st.text(max_size=6), max_size=6), st.sampled_from(["\n", "\r\n", "\r"]), st.randoms())
def test_events_are_read_whole_however_the_bytes_were_cut(texts: list[str], newline: str, rng: random.Random) -> None:
    sent = [{"text": text} for text in texts]
    frames = [f"data: {json.dumps(event, ensure_ascii=False)}" for event in sent] + [": a comment", "data: [DONE]"]
    raw = "".join(frame + newline * 2 for frame in frames).encode()
    cuts = sorted(rng.sample(range(len(raw)), min(5, len(raw) - 1)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert list(events(iter(pieces))) == sent


def test_STR_13_only_cr_and_lf_end_a_line() -> None:
    event = {"text": "a\u2028b\u0085c\u2029d"}
    raw = f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
    assert list(events(iter([raw]))) == [event]
