"""Puts a runner together: model file, device, kernels, weights, cache, one small step to warm up.

Owns the order of loading and what is said about it. Knows no process and no socket.
"""

from __future__ import annotations

import torch

from engine.base.clock import Clock
from engine.base.config import MIB, CacheConfig, ModelConfig, ParallelConfig, SchedulerConfig
from engine.base.errors import ConfigError, ModelFileError
from engine.checkpoint.checkpoint import Checkpoint, open_checkpoint
from engine.checkpoint.locate import locate
from engine.kernels.select import device_of
from engine.models.registry import build_model
from engine.wire.request import Sampling
from engine.wire.step import Admit, StepPlan
from engine.wire.tokens import pack_ints
from engine.wire.worker import WorkerReady
from engine.worker.memory import free_memory, plan_cache
from engine.worker.port import Model
from engine.worker.runner import ModelRunner

WARM_UP_TOKENS = 8


def build_runner(
    model_config: ModelConfig,
    cache_config: CacheConfig,
    scheduler_config: SchedulerConfig,
    parallel_config: ParallelConfig,
    clock: Clock,
) -> tuple[ModelRunner, WorkerReady]:
    """Loads the model, in the thread that is going to run it.

    Raises ConfigError or ModelFileError when it cannot be served.
    """
    chosen: dict[str, str] = {}
    set_threads(parallel_config.threads, chosen)
    path = locate(model_config.model)
    with open_checkpoint(path) as checkpoint:
        max_model_len = context_of(checkpoint, model_config.max_model_len)
        model, num_blocks = load(checkpoint, model_config, cache_config, scheduler_config, max_model_len, chosen)
    ready = WorkerReady(num_blocks, cache_config.block_size, max_model_len, model.vocab_size, chosen)
    if not computes_numbers(runner_of(model, ready, 1, clock)):
        raise ModelFileError(f"{path}: the model computes no numbers from its weights, so the file is damaged")
    return runner_of(model, ready, scheduler_config.max_num_seqs, clock), ready


def set_threads(asked: int | None, chosen: dict[str, str]) -> None:
    """Left out, torch's own number stays: the processors of this process, or what OMP_NUM_THREADS says."""
    if asked is not None:
        torch.set_num_threads(asked)
    else:
        chosen["threads"] = str(torch.get_num_threads())


def context_of(checkpoint: Checkpoint, asked: int | None) -> int:
    """Tokens of the longest sequence. Raises ConfigError for more than the model has positions."""
    trained = checkpoint.spec.max_position
    if asked is not None and asked > trained:
        raise ConfigError(f"max_model_len is {asked}, and the model {checkpoint.path} was trained for {trained} tokens")
    return asked or trained


def load(
    checkpoint: Checkpoint,
    model_config: ModelConfig,
    cache_config: CacheConfig,
    scheduler_config: SchedulerConfig,
    max_model_len: int,
    chosen: dict[str, str],
) -> tuple[Model, int]:
    """The model with its cache, and the number of KV blocks: they get what the weights leave."""
    model, choices = build_model(
        checkpoint,
        dtype=model_config.dtype,
        device=model_config.device,
        kv_cache_dtype=cache_config.kv_cache_dtype,
        block_size=cache_config.block_size,
        max_rows=scheduler_config.max_num_batched_tokens,
    )
    chosen.update(choices)
    device = torch.device(device_of(model_config.device, {}))
    num_blocks = plan_cache(cache_config, model.block_bytes, max_model_len, free_memory(device), device)
    if cache_config.kv_cache_memory_bytes is None:
        chosen["kv_cache_memory_bytes"] = f"{num_blocks * model.block_bytes / MIB:.0f} MiB, touched as it is used"
    model.allocate_cache(num_blocks)
    return model, num_blocks


def runner_of(model: Model, ready: WorkerReady, max_num_seqs: int, clock: Clock) -> ModelRunner:
    return ModelRunner(
        model,
        max_num_seqs=max_num_seqs,
        max_model_len=ready.max_model_len,
        block_size=ready.block_size,
        vocab_size=ready.vocab_size,
        clock=clock,
    )


def computes_numbers(runner: ModelRunner) -> bool:
    """Warms up: a short prompt goes through every kernel once, and a token has to come of it."""
    count = min(WARM_UP_TOKENS, runner.rows.max_model_len, runner.rows.block_size)
    prompt = pack_ints([0] * count)
    admit = Admit(0, 0, 0, prompt, count, 0, Sampling(max_tokens=1), pack_ints([0]))
    row = (pack_ints([0]), pack_ints([count]), pack_ints([0]), b"\1")
    return not runner.execute(StepPlan(0, b"", [admit], b"", *row)).corrupted
