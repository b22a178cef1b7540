from __future__ import annotations

import pytest

from engine.base.errors import ModelFileError
from engine.checkpoint.generation import GenerationDefaults, generation_from_gguf, generation_from_hf
from engine.checkpoint.gguf import read_gguf
from tests.oracles.gguf_writer import write_gguf


def test_nothing_said_is_nothing_set():
    assert generation_from_hf({}, "g.json") == generation_from_gguf({}, "m.gguf") == GenerationDefaults()


def test_generation_config_is_read_and_other_keys_are_left():
    table = {"do_sample": True, "temperature": 1, "top_k": 0, "min_p": 0.1, "max_new_tokens": 50, "use_cache": True}
    assert generation_from_hf(table, "g.json") == GenerationDefaults(
        do_sample=True, temperature=1.0, top_k=0, min_p=0.1, max_new_tokens=50
    )


def test_gguf_sampling_keys_come_back_as_they_were_meant(tmp_path):
    keys = {"temp": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.05, "penalty_repeat": 1.1}
    written = {f"general.sampling.{key}": value for key, value in keys.items()}
    metadata = read_gguf(write_gguf(tmp_path / "m.gguf", written, {})).metadata
    assert generation_from_gguf(metadata, "m.gguf") == GenerationDefaults(
        temperature=0.6, top_p=0.95, top_k=20, min_p=0.05, repetition_penalty=1.1
    )


@pytest.mark.parametrize(
    "key, value",
    [
        ("temperature", -0.1),
        ("temperature", "hot"),
        ("top_p", 1.5),
        ("min_p", -1),
        ("top_k", -1),
        ("top_k", 1.5),
        ("repetition_penalty", 0),
        ("max_new_tokens", 0),
        ("do_sample", "yes"),
    ],
)
def test_value_outside_its_range_is_refused(key, value):
    with pytest.raises(ModelFileError, match=rf"g\.json: {key}"):
        generation_from_hf({key: value}, "g.json")
