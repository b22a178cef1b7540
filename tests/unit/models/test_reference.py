from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.oracles.decoder_reference import reference_logits
from tests.unit.models.tiny import CASES, TOKENS, model_of

GOLDEN = np.load(Path(__file__).parent / "golden" / "tiny_logits.npz")


@pytest.mark.parametrize("name", CASES)
def test_the_reference_decoder_gives_the_logits_of_transformers(name):
    logits = reference_logits(*model_of(name), TOKENS)
    np.testing.assert_allclose(logits, GOLDEN[name], rtol=1e-5, atol=1e-5)  # transformers rotates and norms in float32
    assert np.ptp(logits) > 1  # weights are not so small that any model would pass


@pytest.mark.parametrize(
    ("one", "other"),
    [("llama", "llama-linear-rope"), ("llama", "llama-llama3-rope"), ("qwen3", "llama"), ("qwen2", "llama")],
)
def test_the_golden_logits_tell_the_models_apart(one, other):
    assert np.abs(GOLDEN[one] - GOLDEN[other]).max() > 0.1
