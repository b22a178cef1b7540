"""The default model in float32 gives the logits and the greedy tokens of transformers, alone and in batches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.checkpoint.checkpoint import open_checkpoint
from engine.models.decoder import Decoder
from engine.models.registry import build_model
from tests.oracles.paged_steps import PagedSequences

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "smollm2_greedy.json").read_text("utf-8"))["prompts"]
LEAST_GAP = 1e-3
"""Between the reference's two best logits: nearer, rounding may decide."""
IN_A_BATCH = 8
NUM_BLOCKS = 256


@pytest.fixture(scope="module")
def model(default_model: Path) -> Decoder[torch.Tensor]:
    with open_checkpoint(default_model) as checkpoint:
        built, _ = build_model(
            checkpoint, dtype="float32", device="cpu", kv_cache_dtype="auto", block_size=16, max_rows=512
        )
    built.allocate_cache(NUM_BLOCKS)
    return built


@pytest.mark.parametrize("golden", GOLDEN, ids=[golden["name"] for golden in GOLDEN])
def test_logits_and_greedy_tokens_are_those_of_transformers(model, golden):
    prompt, output = golden["prompt_ids"], golden["output_ids"]
    with torch.inference_mode():
        logits = model.forward(
            PagedSequences(1, num_blocks=NUM_BLOCKS).step([(0, prompt + output[:-1])], all_logits=True)
        )
    logits = logits[len(prompt) - 1 :].numpy()
    assert differing(golden, logits.argmax(axis=1)) == []
    for kept in golden["top20"]:
        np.testing.assert_allclose(logits[kept["step"], kept["ids"]], kept["logits"], rtol=1e-3)


def test_a_batch_of_eight_draws_the_tokens_of_transformers(model):
    goldens = GOLDEN[:: len(GOLDEN) // IN_A_BATCH]
    paged = PagedSequences(IN_A_BATCH, num_blocks=NUM_BLOCKS)
    drawn: list[list[int]] = []
    for step in range(len(goldens[0]["output_ids"])):
        # The reference's own tokens go on, so that a near tie does not end the comparison.
        runs = [golden["prompt_ids"] if step == 0 else [golden["output_ids"][step - 1]] for golden in goldens]
        with torch.inference_mode():
            drawn.append(model.forward(paged.step(list(enumerate(runs)))).argmax(dim=1).tolist())
    for golden, tokens in zip(goldens, zip(*drawn, strict=True), strict=True):
        assert differing(golden, tokens) == [], golden["name"]


def differing(golden, tokens) -> list[int]:
    """Steps whose token is not the reference's, though that was clear."""
    expected, gaps = golden["output_ids"], golden["gaps"]
    return [
        step
        for step, (token, other, gap) in enumerate(zip(tokens, expected, gaps, strict=True))
        if token != other and gap > LEAST_GAP
    ]
