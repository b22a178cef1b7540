from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import ModelFileError
from engine.checkpoint.fetch import SMOLLM2
from engine.checkpoint.locate import locate


@pytest.fixture
def default_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that already holds the default model (its size, not its bytes: a sparse file)."""
    monkeypatch.setenv("ENGINE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "cache" / "models" / SMOLLM2.file_name
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(SMOLLM2.num_bytes)
    return path


def refusal(model: Path | str) -> str:
    with pytest.raises(ModelFileError) as caught:
        locate(str(model))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", [None, "smollm2-135m-instruct", "SmolLM2-135M-Instruct", "SMOLLM2-135M-INSTRUCT"])
def test_default_model_goes_by_no_name_or_its_own_in_any_case(default_model, name):
    assert locate(name) == default_model


def test_what_exists_wins_over_the_name(default_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "SmolLM2-135M-Instruct").mkdir()
    assert "no config.json" in refusal("SmolLM2-135M-Instruct")


def test_gguf_file_is_itself(tmp_path):
    (tmp_path / "m.GGUF").touch()
    assert locate(str(tmp_path / "m.GGUF")) == tmp_path / "m.GGUF"


def test_file_that_begins_like_gguf_may_have_any_name(tmp_path):
    (tmp_path / "blob").write_bytes(b"GGUF\x03")
    assert locate(str(tmp_path / "blob")) == tmp_path / "blob"


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "m.gguf").touch()
    assert locate("~/m.gguf") == tmp_path / "m.gguf"


def test_other_file_is_refused_with_what_may_be_passed(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"12345678{}")
    assert "not a GGUF file" in (said := refusal(tmp_path / "model.safetensors")) and "Hugging Face folder" in said


def test_folder_with_config_is_itself(tmp_path):
    (tmp_path / "config.json").touch()
    assert locate(str(tmp_path)) == tmp_path


def test_folder_with_one_gguf_is_that_file(tmp_path):
    (tmp_path / "config.json").touch()
    (tmp_path / "m.gguf").touch()
    assert locate(str(tmp_path)) == tmp_path / "m.gguf"


def test_folder_with_weights_is_itself_whatever_else_lies_there(tmp_path):
    for name in ("config.json", "m.gguf", "model.safetensors"):
        (tmp_path / name).touch()
    assert locate(str(tmp_path)) == tmp_path


def test_folder_with_several_ggufs_names_them(tmp_path):
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    assert "a.gguf, b.gguf" in refusal(tmp_path)


def test_folder_without_config_names_the_missing_file(tmp_path):
    (tmp_path / "model.safetensors").touch()
    assert "no config.json" in refusal(tmp_path)


def test_hub_id_is_told_that_folders_are_meant():
    assert "hub is not supported" in (said := refusal("HuggingFaceTB/SmolLM2-135M")) and "folder" in said


@pytest.mark.parametrize("model", ["gpt-5", "./nowhere.gguf", "models/nowhere.gguf", "/no/such/folder"])
def test_what_does_not_exist_is_refused_with_what_may_be_passed(model):
    assert "SmolLM2-135M-Instruct" in refusal(model)
