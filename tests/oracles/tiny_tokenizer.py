"""Two small tokenizers for tests, trained here and now on a fixed text: the same ids on every machine.

One is byte-level BPE (SmolLM2's kind), one is SentencePiece-like BPE with byte fallback (Llama 2's kind).
"""

from __future__ import annotations

import json
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<pad>")
BYTE_LEVEL_SIZE = 560
SPM_MERGED_SIZE = 220
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # values of tokenizer.ggml.token_type

TINY_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

TEXT = """\
The quick brown fox jumps over the lazy dog. A serving engine reads requests, schedules them into steps, and writes
tokens as they come. The first token is late when the prompt is long; the next tokens are late when the batch is full.
Who made whom wait? The engine can say: it keeps a record of every step, of every pause, and of every queue.
In the beginning there was a prompt, and the prompt was without tokens. Then the tokenizer said: let there be merges.
One, two, three, four, five, six, seven, eight, nine, ten. 0 1 2 3 4 5 6 7 8 9 10 20 30 40 50 100 1000 2024 3.14159
def schedule(self) -> StepPlan:
    budget = Budget(self.limits)
    for request in self.waiting:
        if not budget.has_room(request):
            break
        self.admit(request, budget)
    return self.draw_up(budget)
{"role": "user", "content": "What is the capital of France?"} {"role": "assistant", "content": "It is Paris."}
Der schnelle braune Fuchs springt über den faulen Hund. Größe, Straße, Übung. Le café est déjà fermé, n'est-ce pas?
Привет, мир! Καλημέρα κόσμε. 你好，世界。こんにちは世界。안녕하세요 세계. 😀 😀 🚀 👩‍👩‍👧 ✨ naïve résumé
Whenever the waiter waits, the waiting waits with him; whoever waits without waiting is waiting for the wait to end.
"""


@cache
def tiny_tokenizer_json() -> str:
    """tokenizer.json of a byte-level BPE of 560 ids: SPECIALS are ids 0 to 5, and every byte has an id."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=BYTE_LEVEL_SIZE,
        min_frequency=1,
        show_progress=False,
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in SPECIALS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(TEXT.splitlines(keepends=True), trainer)
    return str(tokenizer.to_str())


@cache
def tiny_spm_json() -> str:
    """tokenizer.json of a SentencePiece-like BPE of 450 ids: <unk> <s> </s>, 256 bytes, pieces with ▁, ChatML specials.

    A text gets one ▁ in front; characters outside the vocabulary become byte tokens.
    """
    merged = Tokenizer(models.BPE())
    merged.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    merged.train_from_iterator(
        (line for line in TEXT.splitlines() if line.isascii()),
        trainers.BpeTrainer(vocab_size=SPM_MERGED_SIZE, min_frequency=2, show_progress=False),
    )
    trained = json.loads(merged.to_str())["model"]
    pieces = sorted(trained["vocab"], key=trained["vocab"].__getitem__)
    vocabulary = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    vocabulary += ["<|im_start|>", "<|im_end|>"]
    tokens = {text: number for number, text in enumerate(vocabulary)}
    specials = ("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>")
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [added_token(text, tokens[text]) for text in specials],
            "normalizer": {
                "type": "Sequence",
                "normalizers": [
                    {"type": "Prepend", "prepend": "▁"},
                    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
                ],
            },
            "pre_tokenizer": None,
            "post_processor": None,
            "decoder": decoders_of_sentencepiece(),
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": "<unk>",
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": True,
                "byte_fallback": True,
                "ignore_merges": False,
                "vocab": tokens,
                "merges": trained["merges"],
            },
        },
        ensure_ascii=False,
    )


def added_token(text: str, number: int) -> dict[str, object]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": text, **flags}


def decoders_of_sentencepiece() -> dict[str, object]:
    """▁ back to spaces, byte tokens back to characters, one space off the front."""
    return {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    }


def tiny_gguf_vocabulary() -> dict[str, object]:
    """The same byte-level tokenizer as the `tokenizer.*` keys of a GGUF file, with TINY_CHAT_TEMPLATE."""
    model = json.loads(tiny_tokenizer_json())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL if text in SPECIALS else NORMAL for text in tokens],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.bos_token_id": tokens.index("<s>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.chat_template": TINY_CHAT_TEMPLATE,
    }


def tiny_spm_gguf_vocabulary() -> dict[str, object]:
    """The SentencePiece-like tokenizer as GGUF keys; scores fall with ids, as those of SentencePiece BPE do."""
    tokens = json.loads(tiny_spm_json())["model"]["vocab"]
    kinds = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL, "<|im_start|>": CONTROL, "<|im_end|>": CONTROL}
    kinds |= {f"<0x{byte:02X}>": BYTE for byte in range(256)}
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": list(tokens),
        "tokenizer.ggml.token_type": [kinds.get(text, NORMAL) for text in tokens],
        "tokenizer.ggml.scores": [0.0 if text in kinds else -float(number) for text, number in tokens.items()],
        "tokenizer.ggml.bos_token_id": tokens["<s>"],
        "tokenizer.ggml.eos_token_id": tokens["</s>"],
        "tokenizer.ggml.unknown_token_id": tokens["<unk>"],
        "tokenizer.chat_template": TINY_CHAT_TEMPLATE,
    }
