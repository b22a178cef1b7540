from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.checkpoint.checkpoint import Checkpoint, open_checkpoint
from engine.checkpoint.dequantize import dequantize, dequantize_into
from engine.checkpoint.encodings import Encoding
from engine.checkpoint.locate import locate
from engine.checkpoint.spec import ModelSpec

pytestmark = pytest.mark.model
GOLDEN = json.loads((Path(__file__).parent / "golden" / "default_model.json").read_text())


@pytest.fixture(scope="module")
def model() -> Iterator[Checkpoint]:
    with open_checkpoint(locate(None)) as opened:
        yield opened


def test_spec_is_that_of_smollm2_135m(model):
    assert model.spec == ModelSpec(
        architecture="llama",
        num_layers=30,
        hidden_size=576,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        intermediate_size=1536,
        vocab_size=49_152,
        max_position=8192,
        rms_norm_eps=1e-5,
        rope_theta=100_000.0,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_ids=(2,),
        dtype="q4_1",
    )


def test_tensors_are_q4_1_with_norms_and_embedding_apart(model):
    counts = Counter(view.encoding for view in model.tensors.values())
    assert counts == {Encoding.Q4_1: 210, Encoding.F32: 61, Encoding.Q8_0: 1}


@pytest.mark.parametrize("name", GOLDEN)
def test_tensor_decodes_to_the_bits_of_the_reference(model, name):
    assert hashlib.sha256(dequantize(model.tensors[name]).tobytes()).hexdigest() == GOLDEN[name]


def test_tokenizer_is_byte_level_with_49152_tokens(model):
    found = model.tokenizer
    assert found is not None
    assert (found.model, found.pre, len(found.tokens), len(found.merges)) == ("gpt2", "smollm", 49_152, 48_900)
    assert found.tokens[found.eos_token_id] == "<|im_end|>"
    assert found.chat_template is not None and "<|im_start|>" in found.chat_template


def test_opening_takes_less_than_half_a_second(model):
    assert fastest(lambda: open_checkpoint(model.path).close()) < 0.5


def test_decoding_every_tensor_takes_seconds_not_minutes(model):
    largest = max(view.num_values for view in model.tensors.values())
    scratch = np.empty(largest, np.float32)

    def decode_all() -> None:
        for view in model.tensors.values():
            dequantize_into(view, scratch[: view.num_values].reshape(view.shape))

    assert fastest(decode_all) < 2.0  # about 0.4 s on an idle core


def fastest(action) -> float:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
