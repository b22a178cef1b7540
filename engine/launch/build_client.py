"""Puts the client's half together: limits, tokenizer, chat template, admission. Never imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from engine.base.config import EngineConfig, ModelConfig
from engine.base.environ import cache_folder
from engine.base.errors import ConfigError, ModelFileError
from engine.checkpoint.checkpoint import Checkpoint, open_checkpoint
from engine.checkpoint.generation import GenerationDefaults
from engine.checkpoint.spec import ModelSpec
from engine.client.admit import Admission
from engine.client.limits import ModelLimits
from engine.text import ChatTemplate, Tokenizer, load_tokenizer
from engine.wire.params import SamplingParams


class ClientParts(NamedTuple):
    """What every entry point that takes requests needs."""

    admission: Admission
    chat: ChatTemplate | None

    @property
    def limits(self) -> ModelLimits:
        return self.admission.limits


def build_client(config: EngineConfig) -> ClientParts:
    """Reads the model file's header and tokenizer. Raises ConfigError or ModelFileError."""
    assert config.model.model is not None
    with open_checkpoint(Path(config.model.model)) as checkpoint:
        tokenizer = open_tokenizer(checkpoint, config.model)
        limits = limits_of(checkpoint, config, tokenizer)
        chat = open_chat(checkpoint, config.model, tokenizer)
        return ClientParts(Admission(limits, tokenizer), chat)


def open_tokenizer(checkpoint: Checkpoint, config: ModelConfig) -> Tokenizer | None:
    if config.skip_tokenizer_init or checkpoint.tokenizer is None:
        return None
    return load_tokenizer(checkpoint.tokenizer, cache_folder())


def open_chat(checkpoint: Checkpoint, config: ModelConfig, tokenizer: Tokenizer | None) -> ChatTemplate | None:
    if tokenizer is None:
        return None
    source = checkpoint.chat_template
    if config.chat_template is not None:
        try:
            source = Path(config.chat_template).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--chat-template {config.chat_template}: {error}") from error
    return ChatTemplate(source, tokenizer.special_texts)


def context_of(spec: ModelSpec, config: ModelConfig) -> int:
    """The longest prompt plus answer. Raises ConfigError when more is asked for than the model was trained for."""
    wanted = config.max_model_len or spec.max_position
    if wanted > spec.max_position:
        raise ConfigError(f"max_model_len is {wanted}; this model was trained for {spec.max_position} tokens")
    return wanted


def limits_of(checkpoint: Checkpoint, config: EngineConfig, tokenizer: Tokenizer | None) -> ModelLimits:
    spec, model = checkpoint.spec, config.model
    if tokenizer is not None and tokenizer.vocab_size > spec.vocab_size:
        raise ModelFileError(
            f"{checkpoint.path}: the tokenizer has {tokenizer.vocab_size} tokens, the model {spec.vocab_size}"
        )
    return ModelLimits(
        model_names=model.served_model_name,
        vocab_size=spec.vocab_size,
        max_model_len=context_of(spec, model),
        bos_id=spec.bos_token_id,
        eos_ids=spec.eos_token_ids,
        max_logprobs=min(model.max_logprobs, spec.vocab_size),
        max_num_choices=config.frontend.max_num_choices,
        defaults=defaults_of(checkpoint.generation) if model.generation_config == "auto" else SamplingParams(),
        has_tokenizer=tokenizer is not None,
        max_token_bytes=tokenizer.max_token_bytes if tokenizer else 0,
        seed=model.seed,
    )


def defaults_of(generation: GenerationDefaults) -> SamplingParams:
    """What generation_config.json recommends, over our own defaults."""
    if generation.do_sample is False:
        return SamplingParams(temperature=0.0)
    found = {
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "top_k": generation.top_k,
        "min_p": generation.min_p,
        "repetition_penalty": generation.repetition_penalty,
    }
    return structs.replace(SamplingParams(), **{name: value for name, value in found.items() if value is not None})
