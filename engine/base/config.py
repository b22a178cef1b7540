"""The one configuration: frozen sections, each passed alone to the room it is for.

Every field documents itself; the flags of `engine serve` and their help are made from these fields.
Knows no command line and no file format: see engine/cli.py and engine/base/config_file.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from engine.base.errors import ConfigError

KIB = 1024
MIB = 1024 * KIB

Positive = Annotated[int, Meta(gt=0)]


def doc(text: str) -> Meta:
    return Meta(description=text)


class ModelConfig(Struct, frozen=True, kw_only=True):
    """Which weights, in which number format."""

    model: Annotated[
        str | None,
        doc("a GGUF file or a Hugging Face folder; left out: SmolLM2-135M-Instruct, fetched once"),
    ] = None
    served_model_name: Annotated[
        tuple[str, ...], doc("names that clients may use for the model; the first is the one in answers")
    ] = ()
    dtype: Annotated[
        Literal["auto", "float32", "float16", "bfloat16"],
        doc("number format of the weights; auto picks the fastest that this machine computes exactly enough"),
    ] = "auto"
    device: Annotated[Literal["auto", "cpu", "cuda"], doc("where the model runs; auto: CUDA or ROCm if present")] = (
        "auto"
    )
    max_model_len: Annotated[
        Positive | None,
        doc("longest prompt plus answer, in tokens; left out: what the model was trained for"),
    ] = None
    max_logprobs: Annotated[int, Meta(ge=0, description="most alternatives a request may ask for per token")] = 20
    seed: Annotated[int, doc("base of the seeds of requests that bring none; -1: unpredictable")] = -1
    skip_tokenizer_init: Annotated[bool, doc("serve token ids only: no text in, no text out")] = False
    chat_template: Annotated[str | None, doc("a Jinja file that replaces the model's own chat template")] = None
    generation_config: Annotated[
        Literal["auto", "none"],
        doc("take default sampling parameters from the model's generation_config.json"),
    ] = "auto"


class CacheConfig(Struct, frozen=True, kw_only=True):
    """The paged KV cache."""

    block_size: Annotated[Positive, doc("tokens in a KV block")] = 16
    kv_cache_memory_bytes: Annotated[
        Positive | None,
        doc(
            "memory of the KV cache in bytes (also 2GiB, 512MiB); left out: the smaller of 512 MiB and a quarter of "
            "the free memory, but never less than one full context; touched only as it is used"
        ),
    ] = None
    enable_prefix_caching: Annotated[bool, doc("share the KV blocks of equal prompt beginnings")] = True
    kv_cache_dtype: Annotated[
        Literal["auto", "float32", "float16", "bfloat16"], doc("number format of the KV cache")
    ] = "auto"


class SchedulerConfig(Struct, frozen=True, kw_only=True):
    """What one step may hold, and who waits."""

    max_num_seqs: Annotated[Positive, doc("most sequences that run at once")] = 64
    max_num_batched_tokens: Annotated[
        Positive, doc("most tokens in one step; longer prompts are prefilled in chunks over several steps")
    ] = 1024
    scheduling_policy: Annotated[
        Literal["fcfs", "priority"], doc("order of waiting requests; priority: lower value first")
    ] = "fcfs"
    max_num_queued_reqs: Annotated[
        Positive, doc("most waiting requests; one more is answered 503 with Retry-After")
    ] = 1024


class ParallelConfig(Struct, frozen=True, kw_only=True):
    """How many devices and processes share the work."""

    tensor_parallel_size: Annotated[Positive, doc("ranks that share each layer")] = 1
    executor: Annotated[
        Literal["inline", "multiproc"],
        doc("inline: the model runs inside the core process; multiproc: in worker processes of its own"),
    ] = "inline"
    threads: Annotated[Positive | None, doc("compute threads; left out: the processors this process may use")] = None


class FrontendConfig(Struct, frozen=True, kw_only=True):
    """The HTTP server."""

    host: Annotated[str, doc("address to listen on; 0.0.0.0 opens the server to the network, so set --api-key")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65535, description="port to listen on; 0: any free one, printed")] = 8000
    api_key: Annotated[
        tuple[str, ...], doc("keys that clients may send as `Authorization: Bearer KEY`; also ENGINE_API_KEY")
    ] = ()
    allowed_origins: Annotated[tuple[str, ...], doc("origins that browsers may call from (CORS); `*` is any")] = ()
    ssl_certfile: Annotated[str | None, doc("TLS certificate file (PEM)")] = None
    ssl_keyfile: Annotated[str | None, doc("TLS key file (PEM)")] = None
    root_path: Annotated[str, doc("prefix under which a proxy serves this server")] = ""
    max_body_bytes: Annotated[Positive, doc("largest request body; a larger one is answered 413")] = 8 * MIB
    body_timeout_s: Annotated[float, Meta(gt=0, description="seconds a client may take to send its body")] = 30.0
    timeout_keep_alive_s: Annotated[Positive, doc("seconds an idle connection is kept")] = 65
    shutdown_timeout_s: Annotated[
        float, Meta(ge=0, description="seconds running requests may take to finish after SIGTERM")
    ] = 30.0
    stall_timeout_s: Annotated[
        float, Meta(gt=0, description="seconds without progress of the core before /health answers 503")
    ] = 8.0
    max_num_choices: Annotated[Positive, doc("largest `n` of a request")] = 128
    access_log: Annotated[bool, doc("log a line for every request")] = False


class EngineConfig(Struct, frozen=True, kw_only=True):
    """Everything an engine needs to know; rooms get sections, never the whole."""

    model: ModelConfig = ModelConfig()
    cache: CacheConfig = CacheConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    parallel: ParallelConfig = ParallelConfig()
    frontend: FrontendConfig = FrontendConfig()


SECTIONS: dict[str, type[Struct]] = {
    "model": ModelConfig,
    "cache": CacheConfig,
    "scheduler": SchedulerConfig,
    "parallel": ParallelConfig,
    "frontend": FrontendConfig,
}


def check(config: EngineConfig) -> EngineConfig:
    """Combinations that no single field can refuse. Raises ConfigError; returns the configuration unchanged."""
    if config.parallel.tensor_parallel_size > 1:
        raise ConfigError("tensor_parallel_size is more than 1: this version runs on one device")
    if config.scheduler.max_num_batched_tokens < config.scheduler.max_num_seqs:
        raise ConfigError(
            "max_num_batched_tokens is less than max_num_seqs: a step could not hold one token of each sequence"
        )
    if bool(config.frontend.ssl_certfile) != bool(config.frontend.ssl_keyfile):
        raise ConfigError("ssl_certfile and ssl_keyfile go together: give both or neither")
    return config
