"""Regenerates tests/unit/text/golden with `transformers` as the reference.

Run with a Python that has transformers, torch and gguf: python tests/golden/make_text_golden.py MODEL.gguf
The texts and the chats are those that the files hold already; only what the reference makes of them is new.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import tokenizers
import transformers
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import render_jinja_template

FOLDER = Path(__file__).parents[1] / "unit" / "text" / "golden"
VERSIONS = {"transformers": transformers.__version__, "tokenizers": tokenizers.__version__}


def main() -> None:
    model = Path(sys.argv[1]).absolute()
    tokenizer = AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)
    # transformers ignores tokenizer.ggml.pre; the model's own tokenizer.json splits digits before all else.
    splits = [pre_tokenizers.Digits(individual_digits=True), tokenizer.backend_tokenizer.pre_tokenizer]
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    write("smollm2_tokens.json", "strings", lambda row: of_string(tokenizer, row["text"]))
    write("smollm2_chats.json", "chats", lambda row: of_chat(tokenizer, row), chat_template=tokenizer.chat_template)
    write("templates.json", "cases", of_template)


def write(name, key, reference, **more) -> None:
    rows = [reference(row) for row in json.loads((FOLDER / name).read_text())[key]]
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    head = json.dumps(VERSIONS | more)[:-1]
    (FOLDER / name).write_text(f'{head}, "{key}": [\n{lines}\n]}}\n')


def of_string(tokenizer, text: str) -> dict[str, object]:
    """`ids`: special tokens parsed; `plain_ids`: as text."""
    ids = tokenizer(text, add_special_tokens=False).input_ids
    plain = tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids
    return {
        "text": text,
        "ids": ids,
        "plain_ids": plain,
        "decoded": tokenizer.decode(ids, skip_special_tokens=False),
        "decoded_skip": tokenizer.decode(ids, skip_special_tokens=True),
        "plain_decoded": tokenizer.decode(plain, skip_special_tokens=False),
        "plain_decoded_skip": tokenizer.decode(plain, skip_special_tokens=True),
    }


def of_chat(tokenizer, row: dict) -> dict[str, object]:
    asked = {"messages": row["messages"], "add_generation_prompt": row["add_generation_prompt"]}
    options = {"add_generation_prompt": row["add_generation_prompt"]}
    text = tokenizer.apply_chat_template(row["messages"], tokenize=False, **options)
    ids = tokenizer.apply_chat_template(row["messages"], tokenize=True, return_dict=False, **options)
    return asked | {"text": text, "ids": ids}


def of_template(row: dict) -> dict[str, object]:
    """`options`: what render_jinja_template takes besides the template and the messages."""
    specials = {"bos_token": "<s>", "eos_token": "</s>"}
    rendered, _ = render_jinja_template(
        conversations=[row["messages"]], chat_template=row["template"], **specials, **row["options"]
    )
    return {**row, "text": rendered[0]}


if __name__ == "__main__":
    main()
