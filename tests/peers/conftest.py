"""Options of the comparison, and its table at the end of the output.

What needs the peers is collected only where it is asked for by path: `pytest tests/peers`, as `tox -e peers` does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
NEED_PEERS = ("test_speed.py", "test_numbers.py")
PAGES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("peers")
    group.addoption("--peers-out", default=".peers/results.json", help="where the numbers are written (JSON)")
    group.addoption("--peers-rounds", type=int, default=3, help="rounds; each starts and measures every server once")
    group.addoption("--peers-only", default="", help="names of servers, with ; between: to try it out, not to judge")
    group.addoption("--peers-seed", type=int, help="seed of the prompts (default: a new one, printed)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path.name in NEED_PEERS and not is_asked_for(config) else None


def is_asked_for(config: pytest.Config) -> bool:
    """Whether an argument names this folder or a file in it."""
    named = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    return any(HERE in (path.resolve(), *path.resolve().parents) for path in named)


@pytest.fixture(scope="session")
def pages(pytestconfig: pytest.Config) -> list[str]:
    """What is to stand at the end of the output."""
    return pytestconfig.stash.setdefault(PAGES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for page in config.stash.get(PAGES, []):
        terminalreporter.write_line("\n" + page)
