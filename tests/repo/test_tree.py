"""The repository's own promises: the map equals the tree, rooms are built or in parentheses, cases are covered."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
MAP = runpy.run_path(str(ROOT / "ci" / "make_map.py"))
FILES = sorted([*ROOT.glob("engine/**/*.py"), *ROOT.glob("contracts/**/*.py")])


def test_the_map_equals_the_tree() -> None:
    assert (ROOT / "docs/map.md").read_text() == MAP["page"](), "run `python ci/make_map.py`"


def test_every_room_stands_in_the_order_and_only_rooms_do() -> None:
    folders = {folder.name for folder in (ROOT / "engine").iterdir() if (folder / "__init__.py").exists()}
    assert folders == {name for name in MAP["rooms"]() if name not in ("__main__", "cli")}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_says_what_it_owns(file: Path) -> None:
    assert len(MAP["first_line"](file)) > 20


def test_links_in_the_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_an_entry_point_exists_for_each_command() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"engine": "engine.cli:main", "contracts": "contracts.cli:main"}
