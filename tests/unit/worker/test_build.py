from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from engine.base.config import CacheConfig, ModelConfig, ParallelConfig, SchedulerConfig
from engine.base.errors import ConfigError, EngineFault, ModelFileError
from engine.wire.request import Sampling
from engine.worker.build import build_runner
from engine.worker.methods import INITIALISE, RESET, SHUTDOWN, STATS, Initialise
from engine.worker.runner import ModelRunner
from engine.worker.worker import Worker
from tests.fakes.manual_clock import ManualClock
from tests.fakes.small_core import SmallCore
from tests.oracles.safetensors_writer import write_hf
from tests.oracles.tiny_models import tiny_model

CONTEXT, VOCAB, BLOCK = 256, 96, 16  # the tiny model's
GREEDY = Sampling(max_tokens=9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hf(tmp_path_factory.mktemp("tiny"), *tiny_model(scale=0.5))


def sections(folder: Path, **changes: object) -> Initialise:
    """Each change goes to the section that has the field."""
    base = {"model": str(folder), "device": "cpu", "dtype": "float32"} | changes
    kinds = (ModelConfig, CacheConfig, SchedulerConfig, ParallelConfig)
    picked = [{name: value for name, value in base.items() if name in kind.__struct_fields__} for kind in kinds]
    assert sum(map(len, picked)) == len(base)
    return Initialise(*(kind(**fields) for kind, fields in zip(kinds, picked, strict=True)))


def build(folder: Path, **changes: object):
    asked = sections(folder, **changes)
    return build_runner(asked.model, asked.cache, asked.scheduler, asked.parallel, ManualClock())


def answer(runner: ModelRunner, prompt: list[int]) -> list[int]:
    core = SmallCore(runner, 16, BLOCK)
    core.decode([sequence := core.admit(0, prompt, GREEDY)], 5)
    core.drop(sequence)
    core.step([])
    return sequence.output


def test_a_model_file_becomes_a_runner_that_draws(folder):
    runner, ready = build(folder)
    assert (ready.max_model_len, ready.vocab_size, ready.block_size) == (CONTEXT, VOCAB, BLOCK)
    first = answer(runner, [5, 6, 7])
    assert len(first) == 5 and first == answer(runner, [5, 6, 7]) and runner.stats().running == 0


def test_warming_up_leaves_nothing_behind(folder):
    runner, _ = build(folder)
    assert runner.stats().steps == 0
    core = SmallCore(runner, 16, BLOCK)
    core.free = [1, 0]  # block 0 is the one that the warm-up wrote
    core.decode([cold := core.admit(0, [5, 6, 7], GREEDY)], 5)
    assert cold.output == answer(build(folder)[0], [5, 6, 7])


def test_the_context_may_be_shortened(folder):
    assert build(folder, max_model_len=40)[1].max_model_len == 40


@pytest.mark.parametrize("max_model_len", [1, 2])
def test_the_shortest_contexts_still_warm_up(folder, max_model_len):
    assert build(folder, max_model_len=max_model_len, block_size=1)[1].max_model_len == max_model_len


def test_a_context_longer_than_the_model_was_trained_for_is_refused(folder):
    with pytest.raises(ConfigError, match=f"max_model_len is {CONTEXT + 1}.*{CONTEXT}"):
        build(folder, max_model_len=CONTEXT + 1)


def test_the_cache_has_the_size_that_was_asked_for(folder):
    context_bytes = 2 * 2 * 2 * 16 * 4 * CONTEXT  # K and V, layers, key heads, head size, float32
    _, ready = build(folder, kv_cache_memory_bytes=3 * context_bytes)
    assert ready.num_blocks == 3 * CONTEXT // BLOCK
    with pytest.raises(ConfigError, match=str(context_bytes)):
        build(folder, kv_cache_memory_bytes=context_bytes - 1)


def test_what_was_chosen_is_said_and_what_was_asked_is_not(folder):
    _, ready = build(folder)
    assert {"kv_cache_memory_bytes", "threads"} <= ready.chosen.keys() and "dtype" not in ready.chosen
    _, ready = build(folder, kv_cache_memory_bytes=2**20, threads=1)
    assert not {"kv_cache_memory_bytes", "threads"} & ready.chosen.keys()


def test_weights_that_give_no_numbers_are_refused_at_start(tmp_path):
    config, tensors = tiny_model()
    tensors["model.norm.weight"] = np.full_like(tensors["model.norm.weight"], np.nan)
    with pytest.raises(ModelFileError, match="damaged"):
        build(write_hf(tmp_path / "model", config, tensors))


def test_a_worker_serves_its_table_over_a_model(folder):
    worker = Worker(ManualClock())
    methods = worker.methods()
    core = SmallCore(worker, 16, BLOCK)
    with pytest.raises(EngineFault, match="not initialised"):
        methods[STATS.name](None)
    asked = msgspec.msgpack.decode(msgspec.msgpack.encode(sections(folder)), type=Initialise)
    assert methods[INITIALISE.name](asked).vocab_size == VOCAB
    core.decode([sequence := core.admit(0, [5, 6, 7], GREEDY)], 5)
    assert sequence.output == answer(build(folder)[0], [5, 6, 7])
    assert methods[STATS.name](None).running == 1
    methods[RESET.name](None)
    assert methods[STATS.name](None).running == 0
    with pytest.raises(EngineFault, match="already"):
        methods[INITIALISE.name](asked)
    methods[SHUTDOWN.name](None)
    with pytest.raises(EngineFault, match="not initialised"):
        methods[RESET.name](None)
