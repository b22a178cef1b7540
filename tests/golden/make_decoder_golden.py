"""Regenerates tests/unit/models/golden/tiny_logits.npz with `transformers` (5.19) as the reference.

Run with a Python that has transformers, torch and numpy: PYTHONPATH=. python tests/golden/make_decoder_golden.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from tests.oracles.safetensors_writer import write_hf
from tests.unit.models.tiny import CASES, TOKENS, model_of

OUT = Path(__file__).parents[1] / "unit" / "models" / "golden" / "tiny_logits.npz"


def main() -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(OUT, **{name: logits_of(name) for name in CASES})


def logits_of(name: str) -> np.ndarray:
    """float64 arithmetic, so that the reference's own rounding does not matter; [len(TOKENS), vocab]."""
    with tempfile.TemporaryDirectory() as folder:
        write_hf(Path(folder), *model_of(name))
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    with torch.inference_mode():
        logits = model(torch.tensor([TOKENS]), use_cache=False).logits[0]
    return logits.float().numpy()


if __name__ == "__main__":
    main()
