"""Limits, admissions and engines for these tests: a tiny byte-level tokenizer, or none."""

from __future__ import annotations

from functools import cache

from engine.base.clock import Clock
from engine.client.admit import Admission
from engine.client.async_engine import AsyncEngine
from engine.client.limits import ModelLimits
from engine.client.metrics import ClientMetrics
from engine.text import ChatTemplate, Tokenizer
from engine.wire.params import SamplingParams
from tests.fakes.manual_clock import ManualClock
from tests.fakes.scripted_core import READY, ScriptedCore
from tests.oracles.tiny_tokenizer import TINY_CHAT_TEMPLATE
from tests.unit.text.builders import byte_level

CONTEXT = 64
EOS, SECOND_EOS = 0, 2
VOCAB = 560


def tokenizer() -> Tokenizer:
    return byte_level()


def limits(**fields: object) -> ModelLimits:
    given: dict[str, object] = {
        "model_names": ("tiny",),
        "vocab_size": VOCAB,
        "max_model_len": CONTEXT,
        "eos_ids": (EOS, SECOND_EOS),
        "max_token_bytes": tokenizer().max_token_bytes,
        **fields,
    }
    return ModelLimits(**given)  # type: ignore[arg-type]


def admission(**fields: object) -> Admission:
    return Admission(limits(**fields), tokenizer())


def bare_admission(**fields: object) -> Admission:
    """A server that was started with skip_tokenizer_init."""
    return Admission(limits(has_tokenizer=False, max_token_bytes=0, **fields), None)


@cache
def chat_template() -> ChatTemplate:
    return ChatTemplate(TINY_CHAT_TEMPLATE, tokenizer().special_texts)


def params(**fields: object) -> SamplingParams:
    return SamplingParams(**fields)  # type: ignore[arg-type]


def engine(core: ScriptedCore, gate: Admission | None = None, clock: Clock | None = None) -> AsyncEngine:
    """An engine whose core has said that it is ready."""
    made = AsyncEngine(core, gate or admission(), chat_template(), clock or ManualClock(), ClientMetrics("tiny"))
    core.say(READY)
    made.pump()
    return made
