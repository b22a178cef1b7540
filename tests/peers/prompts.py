"""Prompts of an exact number of tokens, as text and as token ids, no two alike."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

NUM_WORDS = 6000


class Prompt(NamedTuple):
    """Both say the same: servers that take no token ids are given the text."""

    text: str
    token_ids: list[int]


class PromptMaker:
    """The same seed makes the same prompts, so that every server answers the same ones."""

    def __init__(self, tokenizer_file: Path, seed: int) -> None:
        self.tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self.random = random.Random(seed)
        self.words = common_words(self.tokenizer)

    def make(self, num_tokens: int) -> Prompt:
        """Words of one token each; drawn again in the rare case that two neighbours merge."""
        while True:
            text = "".join(self.random.choices(self.words, k=num_tokens))
            token_ids = self.tokenizer.encode(text, add_special_tokens=False).ids
            if len(token_ids) == num_tokens:
                return Prompt(text, token_ids)

    def many(self, count: int, num_tokens: int) -> list[Prompt]:
        return [self.make(num_tokens) for _ in range(count)]


def common_words(tokenizer: Tokenizer) -> list[str]:
    """Lower-case words with a space before them, the vocabulary's first: the ones seen most in training."""
    by_id = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    found = [piece[1:] for piece, _ in by_id if piece[:1] == "Ġ"]
    return [f" {word}" for word in found if len(word) > 3 and word.isascii() and word.isalpha() and word.islower()][
        :NUM_WORDS
    ]
