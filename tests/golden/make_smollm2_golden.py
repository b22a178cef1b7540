"""Regenerates tests/golden/smollm2_greedy.json from the prompts in it, with `transformers` (5.19) as the reference.

Run with a Python that has transformers and torch: python tests/golden/make_smollm2_golden.py FOLDER, where FOLDER is
the default model as float32 Hugging Face files, as tests/peers/hf_folders.py writes it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM

OUT = Path(__file__).with_name("smollm2_greedy.json")
NUM_TOKENS = 64
KEPT_STEPS = (0, 1, 31, 63)
NUM_KEPT = 20


def main(folder: str) -> None:
    """One prompt at a time, greedy, with a KV cache, end of text ignored, one thread."""
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    model.generation_config.eos_token_id = None
    golden = json.loads(OUT.read_text("utf-8"))
    prompts = [prompt | continued(model, prompt["prompt_ids"]) for prompt in golden.pop("prompts")]
    golden |= {"transformers": transformers.__version__, "torch": torch.__version__, "attention": "eager", "threads": 1}
    OUT.write_text(as_lines(golden, prompts), "utf-8")


def continued(model: torch.nn.Module, prompt: list[int]) -> dict[str, object]:
    """gaps[i]: best logit minus second best where output_ids[i] was chosen. noise_max: the largest change of any logit
    when all positions are computed at once, without a cache; noise_flips: how many best tokens change by that."""
    x = torch.tensor([prompt])
    with torch.inference_mode():
        made = model.generate(
            x,
            attention_mask=torch.ones_like(x),
            max_new_tokens=NUM_TOKENS,
            do_sample=False,
            pad_token_id=2,
            return_dict_in_generate=True,
            output_logits=True,
        )
        at_once = model(made.sequences[:, :-1], use_cache=False).logits[0, len(prompt) - 1 :]
    logits = torch.stack(made.logits)[:, 0]  # [NUM_TOKENS, vocab]
    best_two = logits.topk(2).values
    return {
        "output_ids": made.sequences[0, len(prompt) :].tolist(),
        "gaps": six_digits(best_two[:, 0] - best_two[:, 1]),
        "noise_max": six_digits((logits - at_once).abs().max()[None])[0],
        "noise_flips": int((logits.argmax(-1) != at_once.argmax(-1)).sum()),
        "top20": [best_of(step, logits[step]) for step in KEPT_STEPS],
    }


def best_of(step: int, logits: torch.Tensor) -> dict[str, object]:
    best = logits.topk(NUM_KEPT)
    return {"step": step, "ids": best.indices.tolist(), "logits": six_digits(best.values)}


def six_digits(values: torch.Tensor) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def as_lines(golden: dict[str, object], prompts: list[dict[str, object]]) -> str:
    head = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items())
    lines = ",\n".join(json.dumps(prompt, ensure_ascii=False, separators=(",", ":")) for prompt in prompts)
    return f'{{{head},\n"prompts": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    main(sys.argv[1])
