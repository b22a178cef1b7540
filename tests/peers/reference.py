"""transformers, asked step by step. Run by the peers' own Python, never imported: FOLDER QUESTIONS.json ANSWERS.json

It decodes with its KV cache, one token at a time, and is told which token to go on with: so each step says what it
would have chosen after the same tokens.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers

NUM_BEST = 21


def main(folder: str, questions: str, answers: str) -> None:
    """Question: text, token_ids (the tokens to follow), asked (token ids of each step). Float32 throughout."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    found = [answer(tokenizer, model, question) for question in json.loads(Path(questions).read_text("utf-8"))]
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    Path(answers).write_text(json.dumps({"versions": versions, "answers": found}), "utf-8")


@torch.inference_mode()
def answer(tokenizer: Any, model: Any, question: dict[str, Any]) -> dict[str, Any]:
    """The prompt's token ids, and for each step: the best tokens, their log probabilities, those of the asked ones."""
    prompt = tokenizer(question["text"])["input_ids"]
    past, tokens, steps = None, prompt, []
    for followed, asked in zip(question["token_ids"], question["asked"], strict=True):
        output = model(input_ids=torch.tensor([tokens]), past_key_values=past, use_cache=True, logits_to_keep=1)
        past, tokens = output.past_key_values, [followed]
        logprobs = output.logits[0, -1].double().log_softmax(-1)
        best = logprobs.topk(NUM_BEST)
        steps.append(
            {"best": best.indices.tolist(), "logprobs": best.values.tolist(), "asked": logprobs[asked].tolist()}
        )
    return {"prompt_token_ids": prompt, "steps": steps}


if __name__ == "__main__":
    main(*sys.argv[1:])
