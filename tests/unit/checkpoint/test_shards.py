from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import ModelFileError
from engine.checkpoint.shards import read_shards
from tests.oracles.safetensors_writer import write_hf

TENSORS = {f"t{n}": np.full(n + 1, n, np.float32) for n in range(5)}
SECOND = "model-00002-of-00002.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_hf(tmp_path / "model", {}, TENSORS, shards=2)


def refusal(folder: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        read_shards(folder)
    return str(caught.value)


def change_index(folder: Path, **weight_map: object) -> None:
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    path.write_text(json.dumps({"weight_map": index["weight_map"] | weight_map}))


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_shards_read_as_one_file(tmp_path, shards):
    found = read_shards(write_hf(tmp_path / "model", {}, TENSORS, shards=shards)).tensors
    assert {n: bytes(t.tensor.data) for n, t in found.items()} == {n: t.tobytes() for n, t in TENSORS.items()}


def test_every_tensor_knows_its_file(folder):
    assert read_shards(folder).tensors["t1"].source == folder / SECOND


def test_FIL_08_missing_shard_is_named(folder):
    (folder / SECOND).unlink()
    assert SECOND in (said := refusal(folder)) and "missing" in said


@pytest.mark.parametrize("kept", [-1, 0.5], ids=["FIL-08-shard-cut-by-one-byte", "FIL-08-shard-cut-by-half"])
def test_cut_shard_is_named_with_the_bytes_missing(folder, kept):
    raw = (folder / SECOND).read_bytes()
    (folder / SECOND).write_bytes(raw[: kept if kept < 0 else int(len(raw) * kept)])
    assert SECOND in (said := refusal(folder)) and "missing" in said


def test_FIL_08_tensor_in_no_shard_is_named(folder):
    change_index(folder, ghost=SECOND)
    assert "'ghost'" in refusal(folder)


def test_tensor_in_another_shard_than_the_index_says_is_refused(folder):
    change_index(folder, t0=SECOND)
    assert "'t0'" in refusal(folder)


def test_tensor_that_the_index_does_not_list_is_refused(folder):
    path = folder / "model.safetensors.index.json"
    weight_map = json.loads(path.read_text())["weight_map"]
    del weight_map["t3"]
    path.write_text(json.dumps({"weight_map": weight_map}))
    assert "'t3'" in (said := refusal(folder)) and "does not list" in said


@pytest.mark.parametrize(
    "name",
    ["../model.safetensors", "/etc/passwd", "sub/model.safetensors", "..", "", "x\0.safetensors", "config.json"],
)
def test_shard_outside_the_folder_is_refused(folder, name):
    change_index(folder, t0=name)
    assert "names the shard" in refusal(folder)


@pytest.mark.parametrize(
    "index",
    [
        pytest.param("[]", id="list"),
        pytest.param("{}", id="no-weight-map"),
        pytest.param("{", id="cut"),
        pytest.param('{"weight_map": {"t0": 3}}', id="file-is-a-number"),
        pytest.param('{"weight_map": ["t0"]}', id="map-is-a-list"),
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_unsound_index_is_refused(folder, index):
    (folder / "model.safetensors.index.json").write_text(index)
    assert "not a valid index" in refusal(folder)


def test_shards_that_are_links_elsewhere_are_followed(tmp_path, folder):
    blob = (folder / SECOND).rename(tmp_path / "blob")
    (folder / SECOND).symlink_to(blob)
    assert len(read_shards(folder).tensors) == 5


def test_folder_without_weights_says_what_it_lacks(tmp_path):
    assert "neither" in refusal(tmp_path)


def test_folder_with_pickled_weights_only_is_refused(tmp_path):
    (tmp_path / "pytorch_model.bin").touch()
    assert "pickle" in refusal(tmp_path)
