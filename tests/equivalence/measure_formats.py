"""What each number format loses against float32 on the default model: run as a program, prints a table.

python -m tests.equivalence.measure_formats [format ...]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

import torch

from engine.checkpoint.checkpoint import Checkpoint, open_checkpoint
from engine.checkpoint.locate import locate
from engine.models.registry import build_model
from engine.text import load_tokenizer
from tests.oracles.paged_steps import PagedSequences

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "smollm2_greedy.json").read_text("utf-8"))["prompts"]
WINDOW = 512
"""Tokens of the text (the licence of this repository) that are scored at a time."""


class Measured(NamedTuple):
    logits: list[torch.Tensor]
    """For each golden prompt [64, vocab]: along the reference's own answer."""
    free: list[list[int]]
    """For each the 64 tokens that this format draws greedily by itself, 8 prompts to a batch."""
    text_loss: float
    """Mean negative log probability of the text's tokens, in nats."""


def main(formats: list[str]) -> None:
    with open_checkpoint(locate(None)) as checkpoint:
        reference = measure(checkpoint, "float32")
        print(f"float32: perplexity {torch.tensor(reference.text_loss).exp():.4f}")
        for dtype in formats:
            report(dtype, measure(checkpoint, dtype), reference)


def measure(checkpoint: Checkpoint, dtype: str) -> Measured:
    model, _ = build_model(checkpoint, dtype=dtype, device="cpu", kv_cache_dtype="auto", block_size=16, max_rows=1024)
    model.allocate_cache(512)
    assert checkpoint.tokenizer is not None
    text = list(load_tokenizer(checkpoint.tokenizer, None).encode((ROOT / "LICENSE").read_text("utf-8")))
    with torch.inference_mode():
        forced = [along(model, golden["prompt_ids"], golden["output_ids"]) for golden in GOLDEN]
        free = [answer for first in range(0, len(GOLDEN), 8) for answer in drawn(model, GOLDEN[first : first + 8])]
        return Measured(forced, free, loss(model, text))


def along(model, prompt: list[int], output: list[int]) -> torch.Tensor:
    return model.forward(PagedSequences(1).step([(0, prompt + output[:-1])], all_logits=True))[
        len(prompt) - 1 :
    ].clone()


def drawn(model, goldens) -> list[list[int]]:
    paged = PagedSequences(len(goldens))
    answers: list[list[int]] = [[] for _ in goldens]
    runs = [golden["prompt_ids"] for golden in goldens]
    for _ in goldens[0]["output_ids"]:
        best = model.forward(paged.step(list(enumerate(runs)))).argmax(dim=1).tolist()
        runs = [[token] for token in best]
        for answer, token in zip(answers, best, strict=True):
            answer.append(token)
    return answers


def loss(model, text: list[int]) -> float:
    total = 0.0
    for first in range(0, len(text) - 1, WINDOW):
        tokens, following = text[first : first + WINDOW], text[first + 1 : first + WINDOW + 1]
        logits = model.forward(PagedSequences(1).step([(0, tokens[: len(following)])], all_logits=True))
        total += torch.nn.functional.cross_entropy(logits, torch.tensor(following), reduction="sum").item()
    return total / (len(text) - 1)


def report(dtype: str, found: Measured, reference: Measured) -> None:
    pairs = list(zip(found.logits, reference.logits, strict=True))
    furthest = max((one - other).abs().max().item() for one, other in pairs)
    typical = torch.cat([(one - other).abs().flatten() for one, other in pairs]).mean().item()
    same = torch.cat([one.argmax(1) == other.argmax(1) for one, other in pairs]).float().mean().item()
    whole = sum(one == other for one, other in zip(found.free, reference.free, strict=True))
    free = [
        a == b for one, other in zip(found.free, reference.free, strict=True) for a, b in zip(one, other, strict=True)
    ]
    print(
        f"{dtype}: largest logit difference {furthest:.3f}, mean {typical:.4f}; next token equal at {same:.2%} of "
        f"{sum(len(one) for one, _ in pairs)} positions along the reference's answers; {whole} of {len(found.free)} "
        f"answers equal whole, {sum(free) / len(free):.1%} of tokens by position; "
        f"perplexity {torch.tensor(found.text_loss).exp():.4f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:] or ["auto"])
