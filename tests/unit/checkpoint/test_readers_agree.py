"""Both readers, on the same faults: what one refuses the other refuses, and neither dies of anything else."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base.errors import ModelFileError
from engine.checkpoint.gguf import read_gguf
from engine.checkpoint.safetensors import read_safetensors
from tests.oracles.gguf_writer import ARRAY, Typed, gguf_bytes
from tests.oracles.safetensors_writer import safetensors_bytes

TENSORS = {"first": np.ones((3, 32), np.float32), "second": np.arange(8, dtype=np.float32)}
METADATA = {
    "general.architecture": "llama",
    "tokens": ["one", "two", ""],
    "types": [1, 2, 3],
    "deep": Typed(ARRAY, [[1, 2], [3]]),
    "flag": True,
    "eps": 1e-5,
}
READERS = {
    "gguf": (read_gguf, gguf_bytes(METADATA, TENSORS, "Q8_0")),
    "safetensors": (read_safetensors, safetensors_bytes(TENSORS)),
}
EXTREMES = [0, 1, 2**31, 2**32 - 1, 2**56, 2**63, 2**64 - 1]
Reader = Callable[[Path], object]
both = pytest.mark.parametrize("reader, sound", READERS.values(), ids=READERS)


def accepts(reader: Reader, path: Path, raw: bytes) -> bool:
    path.write_bytes(raw)
    try:
        reader(path)
    except ModelFileError:
        return False
    return True


@both
def test_sound_file_is_accepted(tmp_path, reader, sound):
    assert accepts(reader, tmp_path / "m", sound)


@both
@pytest.mark.parametrize(
    "extra", [b"\0", b"x", bytes(31), bytes(4096)], ids=lambda e: f"FIL-10-{len(e)}-bytes-{e[:1].hex()}"
)
def test_trailing_bytes_are_refused(tmp_path, reader, sound, extra):
    assert not accepts(reader, tmp_path / "m", sound + extra)


@both
@pytest.mark.parametrize("lost", [1, 2, 31, 64])
def test_FIL_08_missing_bytes_are_refused(tmp_path, reader, sound, lost):
    assert not accepts(reader, tmp_path / "m", sound[:-lost])


@st.composite
def edits(draw: st.DrawFn, raw: bytes) -> bytes:
    """`raw` with a few bytes or 64-bit words replaced, and sometimes cut or spliced."""
    changed = bytearray(raw)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed) - 1))
        word = draw(
            st.one_of(
                st.binary(min_size=1, max_size=3),
                st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**56, 2**63, 2**64 - 1]).map(
                    lambda n: n.to_bytes(8, "little")
                ),
            )
        )
        if draw(st.booleans()):
            changed[at : at + len(word)] = word
        else:
            changed[at:at] = word
    return bytes(changed[: draw(st.sampled_from([len(changed), len(changed), len(changed) - 1, len(changed) // 2]))])


@both
@settings(max_examples=250, deadline=1000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_file_is_read_or_refused_quickly_and_in_little_memory(tmp_path, reader, sound, data):
    raw = data.draw(edits(sound))
    tracemalloc.start()
    try:
        accepts(reader, tmp_path / "m", raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6


@both
@settings(max_examples=100, deadline=1000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=300))
def test_noise_behind_a_sound_beginning_is_refused(tmp_path, reader, sound, noise):
    assert not accepts(reader, tmp_path / "m", sound[:24] + noise)
