from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.checkpoint.checkpoint import open_checkpoint
from engine.checkpoint.dequantize import dequantize
from engine.models.decoder import Decoder
from engine.models.registry import build_model
from tests.oracles.decoder_reference import reference_logits
from tests.oracles.gguf_writer import RawTensor
from tests.oracles.paged_steps import PagedSequences, empty_step
from tests.oracles.safetensors_writer import write_hf
from tests.oracles.tiny_models import tiny_model, write_tiny_gguf
from tests.unit.models.tiny import CASES, TOKENS, model_of


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    """To float32's rounding, relative to the largest logit."""
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


def built(path: Path, dtype: str = "float32", block_size: int = 16) -> Decoder[torch.Tensor]:
    with open_checkpoint(path) as checkpoint:
        model, _ = build_model(
            checkpoint, dtype=dtype, device="cpu", kv_cache_dtype="auto", block_size=block_size, max_rows=64
        )
    model.allocate_cache(64)
    return model


def logits_of(model: Decoder[torch.Tensor], tokens: list[int], chunks: list[int], block_size: int = 16) -> np.ndarray:
    """Logits of every token, run in chunks of these sizes."""
    paged = PagedSequences(1, block_size=block_size, num_blocks=64)
    found = []
    with torch.inference_mode():
        for size in chunks:
            first = len(paged.tokens[0])
            found.append(model.forward(paged.step([(0, tokens[first : first + size])], all_logits=True)).clone())
    return torch.cat(found).numpy()


@pytest.mark.parametrize("name", CASES)
def test_a_hugging_face_folder_gives_the_logits_of_the_reference(name, tmp_path):
    model = built(write_hf(tmp_path, *model_of(name)))
    assert_close(logits_of(model, TOKENS, [len(TOKENS)]), reference_logits(*model_of(name), TOKENS))


@pytest.mark.parametrize("name", [name for name in CASES if "bias" not in name and "rope" not in name])
def test_a_gguf_file_gives_the_logits_of_the_reference(name, tmp_path):
    model = built(write_tiny_gguf(tmp_path / "tiny.gguf", *model_of(name)))
    assert_close(logits_of(model, TOKENS, [len(TOKENS)]), reference_logits(*model_of(name), TOKENS))


@pytest.mark.parametrize("chunks", [[1] * 28, [3, 1, 7, 17], [20, 8], [27, 1]], ids=str)
@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
def test_chunks_give_the_logits_of_the_whole(name, chunks, tmp_path):
    model = built(write_hf(tmp_path, *model_of(name)), block_size=8)
    expected = reference_logits(*model_of(name), TOKENS)
    assert_close(logits_of(model, TOKENS, chunks, block_size=8), expected)


@pytest.mark.parametrize("encoding", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16"])
@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_a_quantised_file_is_the_model_of_its_decoded_values(architecture, encoding, tmp_path):
    config, tensors = tiny_model(architecture, scale=0.3)
    encodings = {name: encoding if tensor.ndim == 2 else "F32" for name, tensor in tensors.items()}
    path = write_tiny_gguf(tmp_path / "tiny.gguf", config, tensors, encodings)
    with open_checkpoint(path) as checkpoint:
        decoded = {name: dequantize(view) for name, view in checkpoint.tensors.items()}
    expected = reference_logits(config, decoded, TOKENS)
    assert_close(logits_of(built(path), TOKENS, [len(TOKENS)]), expected)
    if encoding.startswith("Q"):
        assert np.abs(expected - reference_logits(config, tensors, TOKENS)).max() > 1e-3


@pytest.mark.parametrize(
    ("encoding", "block_bytes", "scales"), [("Q4_K", 144, (0, 2)), ("Q5_K", 176, (0, 2)), ("Q6_K", 210, (208,))]
)
def test_matrices_of_k_quants_are_those_of_their_decoded_values(encoding, block_bytes, scales, tmp_path):
    """No encoder here writes them: blocks of random bits, with scales that are numbers."""
    config, tensors = tiny_model("qwen3", hidden_size=256, scale=0.1)
    name, generator = "model.layers.0.mlp.gate_proj.weight", np.random.default_rng(0)
    blocks = generator.integers(0, 256, (len(tensors[name]), block_bytes), dtype=np.uint8)
    for offset in scales:
        blocks[:, offset : offset + 2] = np.array([[0.002]], "<f2").view(np.uint8)
    raw = RawTensor(tensors[name].shape, encoding, blocks.tobytes())
    path = write_tiny_gguf(tmp_path / "tiny.gguf", config, {**tensors, name: raw})
    with open_checkpoint(path) as checkpoint:
        decoded = tensors | {name: dequantize(checkpoint.tensors[name])}
    assert_close(logits_of(built(path), TOKENS, [len(TOKENS)]), reference_logits(config, decoded, TOKENS))


@pytest.mark.parametrize(("dtype", "off"), [("float16", 0.01), ("bfloat16", 0.08), ("auto", 0.08)])
@pytest.mark.parametrize("name", ["llama-biases", "qwen2-untied", "qwen3"])
def test_shorter_number_formats_stay_near_the_reference(name, dtype, off, tmp_path):
    model = built(write_hf(tmp_path, *model_of(name)), dtype)
    expected = reference_logits(*model_of(name), TOKENS)
    found = logits_of(model, TOKENS, [20, 1, 7])
    assert np.abs(found - expected).max() < off * np.abs(expected).max()


def test_sequences_of_one_batch_do_not_see_each_other(tmp_path):
    model = built(write_hf(tmp_path, *model_of("llama")), block_size=4)
    random_source = random.Random(3)
    prompts = [[random_source.randrange(96) for _ in range(length)] for length in (21, 2, 9, 1, 14)]
    paged = PagedSequences(5, block_size=4, num_blocks=64)
    with torch.inference_mode():
        model.forward(paged.step([(0, prompts[0][:20]), (3, [7]), (2, prompts[2][:8])]))
        mixed = paged.step([(1, prompts[1]), (0, prompts[0][20:]), (4, prompts[4]), (2, prompts[2][8:])])
        logits = model.forward(mixed).numpy()
    for row, prompt in enumerate([prompts[1], prompts[0], prompts[4], prompts[2]]):
        assert_close(logits[row], reference_logits(*model_of("llama"), prompt)[-1])


def test_a_step_without_sequences_gives_no_logits(tmp_path):
    model = built(write_hf(tmp_path, *model_of("llama")))
    with torch.inference_mode():
        assert model.forward(empty_step()).shape == (0, 96)


def test_a_chunk_that_draws_nothing_still_writes_its_keys(tmp_path):
    model = built(write_hf(tmp_path, *model_of("llama")))
    paged = PagedSequences(1, num_blocks=64)
    with torch.inference_mode():
        first = paged.step([(0, TOKENS[:20])])
        unwanted = type(first)(*(getattr(first, name) for name in first.__slots__[:-1]), np.zeros(0, np.int64))
        assert model.forward(unwanted).shape == (0, 96)
        logits = model.forward(paged.step([(0, TOKENS[20:])])).numpy()
    assert_close(logits[0], reference_logits(*model_of("llama"), TOKENS)[-1])


@pytest.mark.parametrize("name", ["llama", "llama-one-key-head"])
def test_block_bytes_count_keys_and_values_of_all_layers(name, tmp_path):
    model = built(write_hf(tmp_path, *model_of(name)))
    config, _ = model_of(name)
    heads, dim = config["num_key_value_heads"], config["head_dim"]
    assert model.block_bytes == 2 * config["num_hidden_layers"] * heads * dim * 16 * 4
