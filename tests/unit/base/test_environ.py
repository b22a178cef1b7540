from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.environ import cache_folder, child_environment, flag_default, log_level
from engine.base.errors import ConfigError


def test_the_cache_folder_follows_the_nearest_variable() -> None:
    assert cache_folder({"ENGINE_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_folder({"XDG_CACHE_HOME": "/b"}) == Path("/b/enginewright")
    assert cache_folder({}) == Path.home() / ".cache/enginewright"


def test_a_misspelt_log_level_is_an_error_that_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="ENGINE_LOG_LEVEL"):
        log_level({"ENGINE_LOG_LEVEL": "loud"})


def test_a_flag_has_a_twin_in_the_environment() -> None:
    assert flag_default("max-num-seqs", {"ENGINE_ARG_MAX_NUM_SEQS": "7"}) == "7"
    assert flag_default("max_num_seqs", {}) is None


def test_a_child_gets_its_thread_counts_before_any_library_reads_them() -> None:
    environment = child_environment(3, {"OMP_NUM_THREADS": "64", "HOME": "/h"})
    assert environment["OMP_NUM_THREADS"] == environment["RAYON_NUM_THREADS"] == "3"
    assert environment["HOME"] == "/h"


def test_a_child_waits_for_its_threads_briefly_unless_the_user_said_how() -> None:
    assert child_environment(2, {})["GOMP_SPINCOUNT"] == "5000"
    assert child_environment(2, {"GOMP_SPINCOUNT": "7"})["GOMP_SPINCOUNT"] == "7"
    assert "GOMP_SPINCOUNT" not in child_environment(2, {"OMP_WAIT_POLICY": "active"})
