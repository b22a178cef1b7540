from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base.errors import ModelFileError
from engine.checkpoint.checkpoint import open_checkpoint
from engine.checkpoint.dequantize import dequantize
from engine.checkpoint.encodings import Encoding
from engine.checkpoint.names import expected_tensors
from engine.checkpoint.rope import FactorRope
from engine.checkpoint.spec import ModelSpec
from engine.checkpoint.tensors import permute_rows
from tests.oracles.gguf_writer import write_gguf
from tests.oracles.safetensors_writer import write_hf
from tests.oracles.tiny_models import (
    gguf_metadata,
    gguf_name,
    interleaved,
    tiny_model,
    vocabulary,
    write_tiny_gguf,
)

MODELS = [
    pytest.param("llama", {}, id="llama"),
    pytest.param("llama", {"attention_bias": True, "mlp_bias": True}, id="llama-with-biases"),
    pytest.param("llama", {"tie_word_embeddings": False}, id="llama-untied"),
    pytest.param("llama", {"num_key_value_heads": 4, "head_dim": 32}, id="llama-multi-head-wide"),
    pytest.param("qwen2", {"num_key_value_heads": 1}, id="qwen2"),
    pytest.param("qwen3", {"eos_token_id": 5}, id="qwen3"),
]


def refusal(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        open_checkpoint(path)
    return str(caught.value)


@pytest.mark.parametrize("architecture, changes", MODELS)
def test_gguf_and_folder_of_one_model_say_the_same(tmp_path, architecture, changes):
    config, tensors = tiny_model(architecture, **changes)
    with (
        open_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", config, tensors)) as gguf,
        open_checkpoint(write_hf(tmp_path / "hf", config, tensors)) as folder,
    ):
        assert gguf.spec == folder.spec
        assert list(gguf.tensors) == list(folder.tensors) == list(expected_tensors(gguf.spec))
        for name, tensor in tensors.items():
            assert np.array_equal(dequantize(gguf.tensors[name]), tensor)
            assert np.array_equal(dequantize(folder.tensors[name]), tensor)


@pytest.mark.parametrize("encoding", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_encoded_rows_of_queries_and_keys_are_put_in_order_before_they_are_decoded(tmp_path, encoding):
    config, tensors = tiny_model("llama")
    with open_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", config, tensors, encoding)) as found:
        for name in ("model.layers.1.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight"):
            view = found.tensors[name]
            assert view.encoding is Encoding(encoding)
            assert np.abs(dequantize(view) - tensors[name]).max() < 0.03
            assert permute_rows(view).shape == (view.shape[0], view.row_bytes)


def test_views_are_slices_of_the_file(tmp_path):
    config, tensors = tiny_model()
    path = write_tiny_gguf(tmp_path / "m.gguf", config, tensors)
    with open_checkpoint(path) as found:
        views = found.tensors.values()
        assert {view.source for view in views} == {path}
        assert all(view.data.readonly and view.data.obj is next(iter(views)).data.obj for view in views)


@pytest.mark.parametrize("kind", ["gguf", "folder"])
def test_close_unmaps_the_file(tmp_path, kind):
    config, tensors = tiny_model()
    write = write_tiny_gguf if kind == "gguf" else write_hf
    found = open_checkpoint(write(tmp_path / "model.gguf", config, tensors))
    assert str(tmp_path) in Path("/proc/self/maps").read_text()
    found.close()
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_array_over_a_tensor_outlives_close(tmp_path):
    config, tensors = tiny_model()
    found = open_checkpoint(write_hf(tmp_path / "hf", config, tensors))
    kept = np.frombuffer(found.tensors["model.norm.weight"].data, np.float32)
    found.close()
    found.close()
    assert np.array_equal(kept, tensors["model.norm.weight"])


def test_llama_3_factors_become_the_rope_scaling(tmp_path):
    config, tensors = tiny_model()
    factors = np.linspace(1, 8, 8).astype(np.float32)
    path = write_gguf_with(tmp_path, config, tensors, {"rope_freqs.weight": factors})
    with open_checkpoint(path) as found:
        assert found.spec.rope_scaling == FactorRope(tuple(factors.tolist()))
        assert set(found.tensors) == set(tensors)


@pytest.mark.parametrize("bad", [np.zeros(8), np.full(8, np.nan), np.ones(4)], ids=["zero", "nan", "wrong-length"])
def test_unsound_llama_3_factors_are_refused(tmp_path, bad):
    config, tensors = tiny_model()
    assert "rope_freqs.weight" in refusal(write_gguf_with(tmp_path, config, tensors, {"rope_freqs.weight": bad}))


def write_gguf_with(tmp_path: Path, config: dict[str, object], tensors: dict[str, np.ndarray], more: dict) -> Path:
    stored = {gguf_name(name): interleaved(name, tensor, config) for name, tensor in tensors.items()}
    return write_gguf(tmp_path / "more.gguf", gguf_metadata(config), stored | more)


@pytest.mark.parametrize("kind", ["gguf", "folder"])
class TestTensorsAreExactlyThoseOfTheSpec:
    def write(self, tmp_path: Path, kind: str, config: dict[str, object], tensors: dict[str, np.ndarray]) -> Path:
        if kind == "gguf":
            return write_tiny_gguf(tmp_path / "m.gguf", config, tensors)
        return write_hf(tmp_path / "hf", config, tensors)

    def test_missing_tensor_is_named(self, tmp_path, kind):
        config, tensors = tiny_model()
        del tensors["model.layers.1.mlp.up_proj.weight"]
        assert "model.layers.1.mlp.up_proj.weight" in refusal(self.write(tmp_path, kind, config, tensors))

    def test_surplus_tensor_is_named(self, tmp_path, kind):
        config, tensors = tiny_model()
        tensors["model.layers.2.mlp.up_proj.weight"] = np.zeros((96, 64), np.float32)
        said = refusal(self.write(tmp_path, kind, config, tensors))
        assert "model.layers.2.mlp.up_proj.weight" in said and "no place" in said

    def test_shape_that_is_not_the_specs_is_named_with_both(self, tmp_path, kind):
        config, tensors = tiny_model()
        tensors["model.layers.0.mlp.down_proj.weight"] = np.zeros((64, 128), np.float32)
        said = refusal(self.write(tmp_path, kind, config, tensors))
        assert "[64, 128]" in said and "[64, 96]" in said

    def test_layers_beyond_the_tensors_are_refused_before_they_are_counted_out(self, tmp_path, kind):
        config, tensors = tiny_model(num_hidden_layers=2)
        said = refusal(self.write(tmp_path, kind, config | {"num_hidden_layers": 4_000_000_000}, tensors))
        assert "4000000000 layers" in said


@pytest.mark.parametrize(
    "name", ["blk.0.attn_sinks.weight", "blk.00.attn_q.weight", "model.norm.weight", "rope.weight"]
)
def test_gguf_tensor_of_an_unknown_name_is_named_as_the_file_has_it(tmp_path, name):
    config, tensors = tiny_model()
    assert f"'{name}' has no place" in refusal(write_gguf_with(tmp_path, config, tensors, {name: np.zeros(64)}))


def test_head_that_repeats_the_tied_embedding_is_dropped(tmp_path):
    config, tensors = tiny_model()
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    with open_checkpoint(write_hf(tmp_path / "hf", config, tensors)) as found:
        assert "lm_head.weight" not in found.tensors


def test_head_that_differs_from_the_tied_embedding_is_refused(tmp_path):
    config, tensors = tiny_model()
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + 1
    assert "tied" in refusal(write_hf(tmp_path / "hf", config, tensors))


def test_rope_buffers_of_old_checkpoints_are_ignored(tmp_path):
    config, tensors = tiny_model()
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(8, np.float32)
    with open_checkpoint(write_hf(tmp_path / "hf", config, tensors)) as found:
        assert set(found.tensors) == set(tensors) - {"model.layers.0.self_attn.rotary_emb.inv_freq"}


def test_integer_weights_are_refused_by_name(tmp_path):
    config, tensors = tiny_model()
    tensors["model.norm.weight"] = np.ones(64, np.int8)
    assert "'model.norm.weight' is I8" in refusal(write_hf(tmp_path / "hf", config, tensors))


def test_folder_without_config_names_the_file_missing(tmp_path):
    assert "config.json is missing" in refusal(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{", "\xff", "[" * 100_000], ids=["list", "cut", "not-utf-8", "deep"])
def test_unsound_config_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text, "latin-1")
    assert "config.json" in refusal(tmp_path)


def test_ids_and_sampling_of_generation_config_are_merged(tmp_path):
    config, tensors = tiny_model(eos_token_id=2)
    generation = {"eos_token_id": [7, 2], "temperature": 0.6, "top_k": 20, "top_p": 0.95, "do_sample": True}
    folder = write_hf(tmp_path / "hf", config, tensors, extra={"generation_config.json": generation})
    with open_checkpoint(folder) as found:
        assert found.spec.eos_token_ids == (7, 2)
        assert (found.generation.temperature, found.generation.top_k) == (0.6, 20)


@pytest.mark.parametrize("changes", [{}, {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}])
def test_spec_crosses_a_process_border_unchanged(tmp_path, changes):
    config, tensors = tiny_model(**changes)
    with open_checkpoint(write_hf(tmp_path / "hf", config, tensors)) as found:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(found.spec), type=ModelSpec) == found.spec


def test_chat_template_and_tokenizer_come_with_the_folder(tmp_path):
    config, tensors = tiny_model()
    extra = {"tokenizer_config.json": {"chat_template": "{{ messages }}", "eos_token": "</s>"}}
    with open_checkpoint(write_hf(tmp_path / "hf", config, tensors, {"model": {}}, extra=extra)) as found:
        assert found.chat_template == "{{ messages }}"
        assert found.tokenizer is not None and found.tokenizer.eos_token == "</s>"


def test_model_without_tokenizer_opens(tmp_path):
    config, tensors = tiny_model()
    with open_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", config, tensors)) as found:
        assert found.tokenizer is None and found.chat_template is None


@pytest.fixture(scope="module")
def sound_gguf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    config, tensors = tiny_model(hidden_size=32, intermediate_size=32, num_hidden_layers=1, vocab_size=32)
    tokens = vocabulary([chr(97 + n) for n in range(26)] + ["ab", "abc", "de", "fg", "hi", "jk"], ["a b", "ab c"])
    path = tmp_path_factory.mktemp("fuzz") / "m.gguf"
    return write_tiny_gguf(path, config, tensors, "Q4_0", tokens).read_bytes()


@settings(max_examples=300, deadline=1000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 2500), word=st.binary(min_size=1, max_size=8))
def test_changed_model_opens_or_is_refused_and_in_little_memory(tmp_path, sound_gguf, at, word):
    path = tmp_path / "m.gguf"
    path.write_bytes(sound_gguf[:at] + word + sound_gguf[at + len(word) :])
    tracemalloc.start()
    try:
        open_checkpoint(path).close()
    except ModelFileError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 100e6


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("silu"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
CONFIG_KEYS = [
    *tiny_model()[0],
    "rope_scaling",
    "rope_parameters",
    "hidden_act",
    "layer_types",
    "dtype",
    "sliding_window",
]


@pytest.fixture(scope="module")
def sound_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hf(tmp_path_factory.mktemp("fuzz") / "hf", *tiny_model(num_hidden_layers=1))


@settings(max_examples=300, deadline=1000)
@given(changes=st.dictionaries(st.sampled_from(CONFIG_KEYS), JSON, min_size=1, max_size=3))
def test_changed_config_opens_or_is_refused(sound_folder, changes):
    config, _ = tiny_model(num_hidden_layers=1)
    (sound_folder / "config.json").write_text(json.dumps(config | changes))
    try:
        open_checkpoint(sound_folder).close()
    except ModelFileError as error:
        assert "config.json" in str(error) or "tensor" in str(error) or "layers" in str(error)
