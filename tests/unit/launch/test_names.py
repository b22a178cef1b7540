from __future__ import annotations

from pathlib import Path

import pytest

from engine.launch.serve import names_of


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", ("SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct.Q4_1")),
        ("llama-3-8b-q4_k_m.gguf", ("llama-3-8b", "llama-3-8b-q4_k_m")),
        ("tiny-bf16.gguf", ("tiny", "tiny-bf16")),
        ("plain.gguf", ("plain",)),
    ],
)
def test_a_file_is_served_under_its_name_with_and_without_its_number_format(
    name: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / name
    file.touch()
    assert names_of(file) == names


def test_a_folder_keeps_its_whole_name(tmp_path: Path) -> None:
    folder = tmp_path / "my.model-7b"
    folder.mkdir()
    assert names_of(folder) == ("my.model-7b",)
