"""GGUF's tokenizer data into a tokenizer: byte-level BPE from its merges, SentencePiece BPE from its scores."""

from __future__ import annotations

from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers

from engine.base.errors import ModelFileError
from engine.base.log import EventLog
from engine.checkpoint.tokenizer_file import VocabularyTokenizer
from engine.text.merges import merges_of_scores
from engine.text.parts import Parts, Special
from engine.text.pieces import SPACE_MARK, SpacePrefix, byte_level_pieces, sentencepiece_pieces
from engine.text.splitting import DEFAULT, Splitting, find_splitting

log = EventLog(__name__)

UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 2, 3, 4, 5  # values of tokenizer.ggml.token_type


def parts_from_gguf(file: VocabularyTokenizer, cache: Path | None) -> Parts:
    """Raises ModelFileError for a pre-tokenizer whose rule is not known."""
    return byte_level(file) if file.model == "gpt2" else sentencepiece(file, cache)


def byte_level(file: VocabularyTokenizer) -> Parts:
    """Built afresh at every start: reading it back from a tokenizer.json takes longer than building it."""
    splitting = splitting_of(file)
    model = models.BPE(vocab=vocabulary(file), merges=file.merges, ignore_merges=splitting.ignore_merges)
    encoder = tokenizers.Tokenizer(model)
    encoder.pre_tokenizer = splitting.pre_tokenizer()
    if (normalizer := splitting.normalizer()) is not None:
        encoder.normalizer = normalizer
    pieces = byte_level_pieces(file.tokens)
    return finish(file, encoder, pieces, SpacePrefix.NEVER, adds_bos=splitting.adds_bos)


def sentencepiece(file: VocabularyTokenizer, cache: Path | None) -> Parts:
    """▁ stands for a space, in front of every run of text too, unless the file says no; bytes for what is unknown."""
    assert file.scores is not None
    has_prefix = file.add_space_prefix is not False
    unknown = None if file.unk_token_id is None else file.tokens[file.unk_token_id]
    merges = merges_of_scores(mergeable(file), cache)
    model = models.BPE(vocab=vocabulary(file), merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    encoder = tokenizers.Tokenizer(model)
    marks = [normalizers.Prepend(SPACE_MARK)] if has_prefix else []
    encoder.normalizer = normalizers.Sequence([*marks, normalizers.Replace(" ", SPACE_MARK)])
    encoder.decoder = decoders.Sequence([decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()])
    prefix = SpacePrefix.ALWAYS if has_prefix else SpacePrefix.NEVER
    return finish(file, encoder, sentencepiece_pieces(file.tokens), prefix, adds_bos=True)


def splitting_of(file: VocabularyTokenizer) -> Splitting:
    if file.pre is None:
        log.warning("the model file names no pre-tokenizer; GPT-2's is taken, which may cut text another way")
    splitting = find_splitting(file.pre or DEFAULT)
    if splitting is None:
        raise ModelFileError(
            f"the pre-tokenizer {file.pre!r} (tokenizer.ggml.pre) is not supported: without its rule, text would be "
            "cut into the wrong tokens"
        )
    return splitting


def vocabulary(file: VocabularyTokenizer) -> dict[str, int]:
    return {text: token for token, text in enumerate(file.tokens)}


def mergeable(file: VocabularyTokenizer) -> dict[str, float]:
    """Text -> score of the tokens that text may merge into: none that is special, matched whole, or unused."""
    assert file.scores is not None
    apart = (UNKNOWN, CONTROL, USER_DEFINED, UNUSED)
    rows = zip(file.tokens, file.token_types.tolist(), file.scores.tolist(), strict=True)
    return {text: score for text, kind, score in rows if kind not in apart}


def finish(
    file: VocabularyTokenizer,
    encoder: tokenizers.Tokenizer,
    pieces: list[bytes],
    prefix: SpacePrefix,
    *,
    adds_bos: bool,
) -> Parts:
    """Add the tokens that are matched whole, and those put around a text."""
    specials: dict[int, Special] = {}
    for token, kind in enumerate(file.token_types.tolist()):
        if kind in (UNKNOWN, CONTROL):
            specials[token] = Special(file.tokens[token])
            pieces[token] = b""
        elif kind == USER_DEFINED:
            pieces[token] = file.tokens[token].encode()
    encoder.add_special_tokens([whole(special.text, special=True) for special in specials.values()])
    encoder.add_tokens(
        [whole(file.tokens[token]) for token in (file.token_types == USER_DEFINED).nonzero()[0].tolist()]
    )
    roles = roles_of(file)
    wants_bos = adds_bos if file.add_bos_token is None else file.add_bos_token
    before = (roles["bos"],) if wants_bos and "bos" in roles else ()
    after = (roles["eos"],) if file.add_eos_token and "eos" in roles else ()
    return Parts(encoder, pieces, specials, prefix, before, after, roles)


def roles_of(file: VocabularyTokenizer) -> dict[str, int]:
    named = {
        "bos": file.bos_token_id,
        "eos": file.eos_token_id,
        "unk": file.unk_token_id,
        "pad": file.pad_token_id,
        "eot": file.eot_token_id,
    }
    return {role: token for role, token in named.items() if token is not None}


def whole(text: str, *, special: bool = False) -> AddedToken:
    return AddedToken(text, special=special, normalized=False)
