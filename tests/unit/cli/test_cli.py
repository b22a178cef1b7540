"""The command from outside: what it prints, how fast it starts, what it loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.cli import main


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(result.stdout.split())


@pytest.mark.parametrize("statement", ["import engine", "from engine import SamplingParams, EngineConfig"])
def test_importing_the_engine_loads_no_torch_and_no_http_library(statement: str) -> None:
    assert not loaded_by(statement) & {"torch", "fastapi", "httpx", "zmq", "tokenizers", "numpy"}


def test_parsing_a_command_loads_no_torch_and_no_http_library() -> None:
    modules = loaded_by("from engine.cli import build_parser; build_parser().parse_args(['serve'])")
    assert not modules & {"torch", "fastapi", "httpx", "zmq", "tokenizers", "numpy"}


@pytest.mark.parametrize("name", ["wire", "client.collector"])
def test_the_streaming_path_imports_without_torch_or_tokenizers(name: str) -> None:
    assert not loaded_by(f"import engine.{name}") & {"torch", "tokenizers", "zmq"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--help"], "engine serve"),
        (["serve", "--help"], "--max-num-batched-tokens"),
        (["chat", "--help"], "--url"),
        (["run-batch", "--help"], "--resume"),
        (["--version"], "enginewright"),
    ],
)
def test_help_teaches(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"), [(["/nowhere/a.gguf", "--port", "0"], "/nowhere/a.gguf"), (["--dtype", "x"], "--dtype")]
)
def test_what_cannot_be_served_is_one_line_and_exit_2(arguments: list[str], says: str) -> None:
    command = [sys.executable, "-m", "engine", "serve", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert says in result.stderr and len(result.stderr.strip().splitlines()) == 1
