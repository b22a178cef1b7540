"""The sampling parameters that a model file recommends.

Owns their names across the two formats. Applies none of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from engine.checkpoint.fields import Fields, shortest

# Our name -> GGUF's key.
GGUF_KEYS = {
    "temperature": "general.sampling.temp",
    "top_p": "general.sampling.top_p",
    "top_k": "general.sampling.top_k",
    "min_p": "general.sampling.min_p",
    "repetition_penalty": "general.sampling.penalty_repeat",
}


class GenerationDefaults(Struct, frozen=True, kw_only=True):
    """None: the file says nothing. do_sample False means greedy, whatever the other fields say."""

    do_sample: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None  # 0: off
    min_p: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None


def generation_from_hf(table: Mapping[str, object], source: str) -> GenerationDefaults:
    """From generation_config.json; raises ModelFileError for a value outside its range."""
    fields = Fields(source, table)
    return GenerationDefaults(
        do_sample=fields.flag_or("do_sample", None),
        temperature=in_range(fields, "temperature", 0.0, None),
        top_p=in_range(fields, "top_p", 0.0, 1.0),
        top_k=fields.whole_or("top_k", None),
        min_p=in_range(fields, "min_p", 0.0, 1.0),
        repetition_penalty=fields.positive_or("repetition_penalty", None),
        max_new_tokens=fields.count_or("max_new_tokens", None),
    )


def generation_from_gguf(metadata: Mapping[str, object], source: str) -> GenerationDefaults:
    """From the keys general.sampling.*; raises ModelFileError for a value outside its range."""
    found = {ours: metadata[key] for ours, key in GGUF_KEYS.items() if key in metadata}
    found |= {ours: shortest(value) for ours, value in found.items() if isinstance(value, float)}
    return generation_from_hf(found, f"{source}: general.sampling")


def in_range(fields: Fields, key: str, low: float, high: float | None) -> float | None:
    found = fields.number_or(key, None)
    if found is not None and not (low <= found and (high is None or found <= high)):
        raise fields.fault(f"{key} is {found}, outside its range")
    return found
