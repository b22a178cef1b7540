"""SentencePiece's scores as BPE merges, kept in the cache folder: finding them takes longer than all else at start."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from engine.base.clock import entropy
from engine.base.log import EventLog

log = EventLog(__name__)

Merges = list[tuple[str, str]]
FOLDER = "tokenizers"
VERSION = 1  # part of the file's name; changes with the rule below

decode = msgspec.msgpack.Decoder(Merges).decode


def merges_of_scores(scores: Mapping[str, float], cache: Path | None) -> Merges:
    """Text -> score to merges, best first. `cache`: a folder, made where it is missing; None keeps nothing.

    A file of the cache is named by the content it was made from, appears whole or not at all, and is made again
    where it cannot be read. A cache that cannot be written is only a slower start.
    """
    if cache is None:
        return find_merges(scores)
    path = cache / FOLDER / f"merges-{VERSION}-{fingerprint(scores)}.msgpack"
    if (known := read(path)) is not None:
        return known
    merges = find_merges(scores)
    write(path, merges)
    return merges


def find_merges(scores: Mapping[str, float]) -> Merges:
    """Every way to put a token together from two, the highest score first.

    SentencePiece joins the neighbours whose union scores highest; the order among the ways to one token does not
    follow from scores, so the shorter left part goes first.
    """
    found = [
        (-score, cut, text)
        for text, score in scores.items()
        for cut in range(1, len(text))
        if text[:cut] in scores and text[cut:] in scores
    ]
    found.sort()
    return [(text[:cut], text[cut:]) for _, cut, text in found]


def fingerprint(scores: Mapping[str, float]) -> str:
    content = hashlib.sha256("\0".join(scores).encode())
    content.update(msgspec.msgpack.encode(list(scores.values())))
    return content.hexdigest()[:32]


def read(path: Path) -> Merges | None:
    """None where there is no such file, or none that is whole: its last 32 bytes are the digest of the rest."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body, digest = data[:-32], data[-32:]
    if hashlib.sha256(body).digest() != digest:
        log.warning("a cached tokenizer is damaged and is made again", path=path)
        return None
    return decode(body)


def write(path: Path, merges: Merges) -> None:
    body = msgspec.msgpack.encode(merges)
    new = path.with_suffix(f".{entropy(64):x}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(body + hashlib.sha256(body).digest())
        os.replace(new, path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        log.warning("the converted tokenizer could not be kept", path=path, reason=error.strerror)
