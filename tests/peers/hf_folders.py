"""Makes the Hugging Face folders that peers serve out of a GGUF file. Run by the peers' own Python: GGUF FOLDER

FOLDER/float32 and FOLDER/bfloat16 hold the same dequantized weights; FOLDER/*-noeos never end an answer by themselves.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def main(gguf: Path, folder: Path) -> None:
    lacking = [name for name in DTYPES if not (folder / name / "model.safetensors").exists()]
    if lacking:
        convert(gguf, folder, lacking)
    for name in DTYPES:
        split_digits(folder / name / "tokenizer.json")
        without_end(folder / name, folder / f"{name}-noeos")


def convert(gguf: Path, folder: Path, names: list[str]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    ends = ("bos_token_id", "eos_token_id", "pad_token_id")
    model.generation_config.update(**{name: getattr(tokenizer, name) for name in ends})
    # Whoever reads a folder that names a quantization looks for the GGUF file again.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    for name in sorted(names, key=list(DTYPES).index):  # float32 first: the others are cut from it
        part = folder / f"{name}.part"
        model = model.to(DTYPES[name])
        model.config.dtype = DTYPES[name]
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        part.rename(folder / name)


def split_digits(tokenizer_file: Path) -> None:
    """The conversion takes every pre-tokenizer for GPT-2's; this model's splits digits off one by one before that."""
    tokenizer = json.loads(tokenizer_file.read_text("utf-8"))
    before = tokenizer["pre_tokenizer"]
    if before["type"] == "ByteLevel":
        digits = {"type": "Digits", "individual_digits": True}
        tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, before]}
        tokenizer_file.write_text(json.dumps(tokenizer, ensure_ascii=False, indent=1), "utf-8")


def without_end(source: Path, target: Path) -> None:
    """A copy with no end token, for a server that cannot be told to ignore it."""
    if target.exists():
        split_digits(target / "tokenizer.json")
        return
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(source, part)
    for name in ("config.json", "generation_config.json"):
        config = json.loads((part / name).read_text("utf-8"))
        (part / name).write_text(json.dumps(config | {"eos_token_id": None}, indent=1), "utf-8")
    part.rename(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
