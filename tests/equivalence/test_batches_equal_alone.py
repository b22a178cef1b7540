"""A sequence's logits keep their bits, whatever runs beside it and however its prompt is cut, in the default format."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from engine.checkpoint.checkpoint import open_checkpoint
from engine.models.decoder import Decoder
from engine.models.registry import build_model
from tests.oracles.paged_steps import PagedSequences

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

LENGTH = 300
"""Past a query tile, past two classes of context length."""
NUM_DECODED = 24


@pytest.fixture(scope="module")
def model(default_model: Path) -> Decoder[torch.Tensor]:
    with open_checkpoint(default_model) as checkpoint:
        built, _ = build_model(
            checkpoint, dtype="auto", device="cpu", kv_cache_dtype="auto", block_size=16, max_rows=512
        )
    built.allocate_cache(512)
    return built


@pytest.fixture(scope="module")
def tokens() -> list[int]:
    return some_tokens(LENGTH, seed=1)


@pytest.fixture(scope="module")
def alone(model: Decoder[torch.Tensor], tokens: list[int]) -> torch.Tensor:
    """The last NUM_DECODED rows of logits, of one chunk over the whole sequence."""
    return run(model, PagedSequences(1), [[(0, tokens)]])[-NUM_DECODED:]


@pytest.mark.parametrize(
    "chunks", [[LENGTH - NUM_DECODED] + [1] * NUM_DECODED, [100, 37, 16, 4, 1, 2, 3, 137], [31, 32, 1, 2, 234]], ids=str
)
def test_chunks_of_any_size_keep_the_bits_of_the_whole(model, tokens, alone, chunks):
    paged, steps, first = PagedSequences(1), [], 0
    for size in chunks:
        steps.append([(0, tokens[first : first + size])])
        first += size
    assert torch.equal(run(model, paged, steps)[-NUM_DECODED:], alone)


def test_neighbours_that_come_and_go_keep_the_bits_of_running_alone(model, tokens, alone):
    source = random.Random(2)
    paged = PagedSequences(40, num_blocks=512, seed=3)
    neighbours = [some_tokens(source.randrange(1, 60), seed=number) for number in range(1, 40)]
    run(model, paged, [[(0, tokens[: LENGTH - NUM_DECODED])]])
    found, arrived = [], 0
    for position in range(LENGTH - NUM_DECODED, LENGTH):
        runs = [(number, [source.randrange(49_000)]) for number in range(1, arrived + 1) if source.random() < 0.8]
        while arrived < len(neighbours) and source.random() < 0.6:
            arrived += 1
            runs.append((arrived, neighbours[arrived - 1]))
        place = source.randrange(len(runs) + 1)
        runs.insert(place, (0, [tokens[position]]))
        with torch.inference_mode():
            found.append(model.forward(paged.step(runs))[place].clone())
    assert arrived > 10
    assert torch.equal(torch.stack(found), alone)


def run(model: Decoder[torch.Tensor], paged: PagedSequences, steps) -> torch.Tensor:
    """Logits of all rows of all steps."""
    with torch.inference_mode():
        return torch.cat([model.forward(paged.step(runs, all_logits=True)).clone() for runs in steps])


def some_tokens(number: int, seed: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(49_000) for _ in range(number)]
