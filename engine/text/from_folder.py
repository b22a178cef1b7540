"""A Hugging Face tokenizer.json into a tokenizer, with what tokenizer_config.json adds."""

from __future__ import annotations

import json
from typing import Any

import tokenizers
from tokenizers import AddedToken

from engine.base.errors import ModelFileError
from engine.checkpoint.tokenizer_file import FolderTokenizer
from engine.text.parts import Parts, Special
from engine.text.pieces import SpacePrefix, byte_level_pieces, sentencepiece_pieces

Json = dict[str, Any]  # a component of tokenizer.json: each type has fields of its own


def parts_from_folder(file: FolderTokenizer) -> Parts:
    """Raises ModelFileError for a file that cannot be read, or whose tokens do not spell bytes in a known way."""
    try:
        encoder = tokenizers.Tokenizer.from_file(str(file.path))
    except Exception as error:  # noqa: BLE001  # the library raises Exception itself, whatever is wrong
        raise ModelFileError(f"{file.path} cannot be used as a tokenizer: {error}") from None
    encoder.no_padding()
    encoder.no_truncation()
    ids = encoder.get_vocab(with_added_tokens=True)
    specials = specials_of(file, encoder, ids)
    pieces = spell(file, encoder, ids)
    for token in specials:
        pieces[token] = b""
    roles = roles_of(file, ids)
    before, after = around(encoder)
    before = overridden(before, file.add_bos_token, roles.get("bos"))
    after = overridden(after, file.add_eos_token, roles.get("eos"))
    return Parts(encoder, pieces, specials, space_prefix(encoder), before, after, roles)


def specials_of(file: FolderTokenizer, encoder: tokenizers.Tokenizer, ids: dict[str, int]) -> dict[int, Special]:
    """Those that tokenizer.json calls special, and those that tokenizer_config.json names."""
    added = encoder.get_added_tokens_decoder()
    named = (file.bos_token, file.eos_token, file.unk_token, file.pad_token, *file.additional_special_tokens)
    also = {ids[text]: text for text in named if text is not None and text in ids}
    encoder.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in also.values()])
    return {token: Special(text) for token, text in also.items()} | {
        token: Special(entry.content, entry.lstrip, entry.rstrip)
        for token, entry in added.items()
        if entry.special or token in also
    }


def spell(file: FolderTokenizer, encoder: tokenizers.Tokenizer, ids: dict[str, int]) -> list[bytes]:
    """Bytes per id, by the decoder's kind. Ids are few and dense; a hole stands for nothing."""
    tokens = [""] * (max(ids.values(), default=-1) + 1)
    for text, token in ids.items():
        tokens[token] = text
    kinds = [step["type"] for step in steps(encoder.decoder, "decoders")]
    if kinds == ["ByteLevel"]:
        return byte_level_pieces(tokens)
    if kinds and set(kinds) <= {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}:
        return sentencepiece_pieces(tokens)
    raise ModelFileError(
        f"{file.path}: the decoder {' + '.join(kinds) or 'none'} is not supported, only byte-level and SentencePiece"
    )


def space_prefix(encoder: tokenizers.Tokenizer) -> SpacePrefix:
    """What decoding takes off is what encoding put there."""
    decoding = steps(encoder.decoder, "decoders")
    if not any(step["type"] == "Metaspace" or (step["type"] == "Strip" and step["start"]) for step in decoding):
        return SpacePrefix.NEVER
    if any(step["type"] == "Prepend" for step in steps(encoder.normalizer, "normalizers")):
        return SpacePrefix.ALWAYS
    splitting = [s for s in steps(encoder.pre_tokenizer, "pretokenizers") if s["type"] == "Metaspace"]
    schemes = {step.get("prepend_scheme", "always") for step in splitting}
    if schemes == {"never"}:
        return SpacePrefix.NEVER
    return SpacePrefix.ALWAYS if "always" in schemes else SpacePrefix.FIRST


def steps(component: Any, parts: str) -> list[Json]:  # Any: one of the library's classes, which has no common type
    """A component of the library as the steps it is made of; none where there is no component."""
    if component is None:
        return []
    found: Json = json.loads(component.__getstate__())
    return list(found[parts]) if found["type"] == "Sequence" else [found]


def around(encoder: tokenizers.Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that the post-processor puts before and after a text."""
    bare = encoder.encode("a", add_special_tokens=False).ids
    full = encoder.encode("a", add_special_tokens=True).ids
    extra = len(full) - len(bare)
    before = next((cut for cut in range(extra + 1) if full[cut : cut + len(bare)] == bare), 0)
    return tuple(full[:before]), tuple(full[before + len(bare) :])


def overridden(found: tuple[int, ...], wanted: bool | None, token: int | None) -> tuple[int, ...]:
    """tokenizer_config.json's add_bos_token and add_eos_token win over the post-processor, where they are said."""
    if wanted is None or token is None:
        return found
    if not wanted:
        return tuple(other for other in found if other != token)
    return found if token in found else (*found, token)


def roles_of(file: FolderTokenizer, ids: dict[str, int]) -> dict[str, int]:
    named = {"bos": file.bos_token, "eos": file.eos_token, "unk": file.unk_token, "pad": file.pad_token}
    return {role: ids[text] for role, text in named.items() if text is not None and text in ids}
