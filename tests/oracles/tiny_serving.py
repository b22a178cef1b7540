"""A tiny random model that can be served: folder, tokenizer, chat template and all; it says nonsense."""

from __future__ import annotations

import json
from pathlib import Path

from tests.oracles.safetensors_writer import write_hf
from tests.oracles.tiny_models import tiny_model
from tests.oracles.tiny_tokenizer import TINY_CHAT_TEMPLATE, tiny_tokenizer_json

TOKENIZER_CONFIG = {"eos_token": "<|im_end|>", "chat_template": TINY_CHAT_TEMPLATE}


def write_tiny_served(folder: Path, architecture: str = "llama", **changes: object) -> Path:
    """Writes it into `folder` (made if need be) and returns that; `changes` replaces keys of the config."""
    tokenizer = tiny_tokenizer_json()
    ids = {token["content"]: token["id"] for token in json.loads(tokenizer)["added_tokens"]}
    vocab_size = len(json.loads(tokenizer)["model"]["vocab"]) + len(ids)
    end = {"eos_token_id": ids["<|im_end|>"], "bos_token_id": None}
    config, tensors = tiny_model(architecture, vocab_size=-(-vocab_size // 32) * 32, scale=0.2, **end, **changes)
    write_hf(folder, config, tensors, tokenizer_json=tokenizer)
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER_CONFIG))
    return folder
