"""One server of the default model for all tests of this folder that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.serving import Server, served
from tests.fakes.waiting import until


@pytest.fixture(scope="package")
def shared_server(default_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(default_model, tmp_path_factory.mktemp("e2e")) as server:
        yield server


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    """The shared server; after each test it is idle again, in every process."""
    yield shared_server
    until(shared_server.is_idle, 10.0)
