"""Each rule finds its bad sample, passes its good one, and fails again when the good code is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.cli import main

SAMPLES = {
    "EW711": ("engine/client/a.py", 'HOME = "engine.worker.runner"\n', 'HOME = "the engine worker"\n'),
    "EW901": ("engine/client/a.py", "def f():\n" + "    x = 1\n" * 60, "def f():\n" + "    x = 1\n" * 59),
    "EW000": ("engine/client/a.py", "def f(:\n", "def f():\n    return 1\n"),
}


def written(folder: Path, place: str, text: str) -> Path:
    file = folder / place
    file.parent.mkdir(parents=True, exist_ok=True)
    for package in file.parent.relative_to(folder).parents:
        (folder / package / "__init__.py").touch()
    (file.parent / "__init__.py").touch()
    (folder / "__init__.py").unlink()
    file.write_text(text)
    return file


@pytest.mark.parametrize("code", SAMPLES)
def test_a_rule_finds_the_bad_sample(code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, bad, _ = SAMPLES[code]
    assert main(["check", str(written(tmp_path, place, bad))]) == 1
    assert f" {code} " in capsys.readouterr().out


@pytest.mark.parametrize("code", SAMPLES)
def test_a_rule_passes_the_good_sample(code: str, tmp_path: Path) -> None:
    place, _, good = SAMPLES[code]
    assert main(["check", str(written(tmp_path, place, good))]) == 0


def test_composition_roots_may_name_modules(tmp_path: Path) -> None:
    assert main(["check", str(written(tmp_path, "engine/launch/a.py", SAMPLES["EW711"][1]))]) == 0


def test_nothing_to_check_is_not_a_pass(tmp_path: Path) -> None:
    assert main(["check", str(tmp_path)]) == 2
