"""Text to tokens and back, for any supported model file.

Special tokens in a text stay text unless the caller parses them. Knows no chat and no request.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from tokenizers import AddedToken

from engine.base.clock import entropy
from engine.base.errors import ClientError
from engine.checkpoint.tokenizer_file import FolderTokenizer, TokenizerFile
from engine.text.detokenizer import Detokenizer
from engine.text.from_folder import parts_from_folder
from engine.text.from_gguf import parts_from_gguf
from engine.text.guard import Guard
from engine.text.parts import Parts
from engine.text.pieces import PieceTable, piece_table

LONG_TEXT = 4096  # characters; below, encoding takes about a millisecond or two
PUBLIC_ROLES = ("bos", "eos", "unk", "pad")  # the names that chat templates and /tokenizer_info know


def load_tokenizer(file: TokenizerFile, cache: Path | None) -> Tokenizer:
    """The tokenizer that a model file describes. `cache`: folder for what is derived from it; None keeps nothing.

    Raises ModelFileError for a kind that is not supported; the message names it.
    """
    parts = parts_from_folder(file) if isinstance(file, FolderTokenizer) else parts_from_gguf(file, cache)
    return Tokenizer(parts, file.chat_template)


class Tokenizer:
    """Safe for use by several threads: nothing changes after construction. Encoding a long text lets go of the GIL."""

    def __init__(self, parts: Parts, chat_template: str | None = None) -> None:
        self.chat_template = chat_template
        self.vocab_size = len(parts.pieces)
        self.special_ids = frozenset(parts.specials)
        self.bos_id = parts.roles.get("bos")
        self.eos_id = parts.roles.get("eos")
        self.end_ids = frozenset(parts.roles[role] for role in ("eos", "eot") if role in parts.roles)
        self.max_token_bytes = max(map(len, parts.pieces), default=0)
        self._parts = parts
        self._encoder = parts.encoder
        self._special_named = {special.text: token for token, special in parts.specials.items()}
        longest_first = sorted(filter(None, self._special_named), key=len, reverse=True)
        self._special_pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        # Stands for a special token in what the library sees: matched whole as one is, and nobody can guess it.
        self._gap = f"\ue000{entropy(128):032x}\ue001"
        self._encoder.add_tokens([AddedToken(self._gap, special=False, normalized=False)])
        gap_id = self._encoder.token_to_id(self._gap)
        assert gap_id is not None
        self._gap_id = gap_id
        self._encoder.encode_special_tokens = True

    def encode(self, text: str, *, add_special_tokens: bool = True, parse_special: bool = False) -> array[int]:
        """Token ids. add_special_tokens: put the model's BOS (and EOS) around, where it wants them, never twice.

        parse_special: the text of a special token becomes that token; else it is encoded as the text it is.
        Raises ClientError for a text that is not Unicode (half of a surrogate pair).
        """
        tokens = self._parsed(text, "") if parse_special else self._plain(text)
        return self._surrounded(tokens) if add_special_tokens else tokens

    def encode_marked(self, text: str, mark: str, *, add_special_tokens: bool = False) -> array[int]:
        """As `encode` with parse_special, but a special token's text that a `mark` interrupts or follows stays text.

        mark: one character. Marks are no part of the text: they are taken out before anything is encoded.
        """
        tokens = self._parsed(text, mark)
        return self._surrounded(tokens) if add_special_tokens else tokens

    def decode(self, tokens: array[int], *, skip_special_tokens: bool = True) -> str:
        """What a Detokenizer with the same choice makes of the tokens: its docstring has the rules."""
        detokenizer = Detokenizer(self, skip_special_tokens=skip_special_tokens)
        return detokenizer.push(tokens) + detokenizer.flush()

    def token_bytes(self, token: int) -> bytes:
        """What the token adds to a text, a leading space included; b"" for special tokens and unknown ids."""
        return self._parts.pieces[token] if 0 <= token < self.vocab_size else b""

    def token_text(self, token: int) -> str:
        """The token alone, for people: special tokens as they are written, U+FFFD for parts of characters."""
        special = self._parts.specials.get(token)
        return special.text if special is not None else self.token_bytes(token).decode(errors="replace")

    def id_of(self, text: str) -> int | None:
        """The token that is written so in the vocabulary: special tokens as they read, others as it spells them."""
        try:
            found = self._encoder.token_to_id(text)
        except UnicodeEncodeError:  # half of a surrogate pair
            return None
        return None if found is None or found == self._gap_id else int(found)

    @cached_property
    def special_texts(self) -> Mapping[str, str]:
        """Name -> text, such as "bos_token" -> "<s>": what a chat template may use."""
        roles = self._parts.roles
        return {f"{role}_token": self._written(roles[role]) for role in PUBLIC_ROLES if role in roles}

    @cached_property
    def guard(self) -> Guard:
        """Marks text in which a special token is written, for `encode_marked`."""
        return Guard(self._special_named)

    def info(self) -> dict[str, object]:
        """What /tokenizer_info answers, in the words of tokenizer_config.json."""
        ids = {f"{role}_token_id": token for role, token in self._parts.roles.items() if role in PUBLIC_ROLES}
        return {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "vocab_size": self.vocab_size,
            **self.special_texts,
            **ids,
            "add_bos_token": self.bos_id is not None and self.bos_id in self._parts.before,
            "add_eos_token": self.eos_id is not None and self.eos_id in self._parts.after,
            "special_tokens": {special.text: token for token, special in self._parts.specials.items()},
            "clean_up_tokenization_spaces": False,
            "chat_template": self.chat_template,
        }

    def pieces(self, *, skip_special_tokens: bool) -> PieceTable:
        """The bytes of every token, for detokenizers."""
        return self._hidden if skip_special_tokens else self._shown

    @cached_property
    def _hidden(self) -> PieceTable:
        return self._table(skip_special_tokens=True)

    @cached_property
    def _shown(self) -> PieceTable:
        return self._table(skip_special_tokens=False)

    def _table(self, *, skip_special_tokens: bool) -> PieceTable:
        specials = {token: special.text for token, special in self._parts.specials.items()}
        return piece_table(self._parts.pieces, specials, self._parts.prefix, skip_special_tokens=skip_special_tokens)

    def _written(self, token: int) -> str:
        special = self._parts.specials.get(token)
        return special.text if special is not None else str(self._encoder.id_to_token(token))

    def _plain(self, text: str) -> array[int]:
        try:
            if len(text) < LONG_TEXT:
                return array("i", self._encoder.encode(text, add_special_tokens=False).ids)
            # Only the batch call lets go of the GIL; it starts the library's thread pool unless
            # TOKENIZERS_PARALLELISM is false, as it is in every process that the engine starts.
            [encoding] = self._encoder.encode_batch_fast([text], add_special_tokens=False)
            return array("i", encoding.ids)
        except TypeError:
            # What the library says of the one kind of `str` that is no Unicode text; JSON can spell it.
            raise ClientError("the text holds half of a surrogate pair, which is no character") from None

    def _parsed(self, text: str, mark: str) -> array[int]:
        """Put a gap where a special token stands, encode all in one go, put the special tokens into the gaps.

        So no switch of the library is turned between calls, and text beside a gap is cut as beside a special token.
        """
        runs: list[str] = []
        found: list[int] = []
        start, strips = 0, False
        for match in self._special_pattern.finditer(text):
            token = self._special_named[match.group()]
            special = self._parts.specials[token]
            runs.append(self._run(text[start : match.start()], strips, special.strips_left, mark))
            found.append(token)
            start, strips = match.end(), special.strips_right
        runs.append(self._run(text[start:], strips, False, mark))

        tokens = self._plain(self._gap.join(runs))
        at = -1
        for token in found:
            at = tokens.index(self._gap_id, at + 1)
            tokens[at] = token
        return tokens

    def _run(self, text: str, strips_left: bool, strips_right: bool, mark: str) -> str:
        """Text between two special tokens, without marks and without the white space that they swallow."""
        text = text.lstrip() if strips_left else text
        text = text.rstrip() if strips_right else text
        return text.replace(mark, "") if mark else text

    def _surrounded(self, tokens: array[int]) -> array[int]:
        before, after = array("i", self._parts.before), array("i", self._parts.after)
        if tokens[: len(before)] == before:
            before = array("i")
        return before + tokens + after
