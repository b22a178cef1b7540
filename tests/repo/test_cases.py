"""Every case in tests/cases.md is pinned by a test that carries its id, or says why it is not here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
LIST = (TESTS / "cases.md").read_text()
TESTED, LEFT_OUT = LIST.split("| not here |")
CODE = "\n".join(file.read_text() for file in TESTS.rglob("*.py"))
ID = re.compile(r"\b[A-Z]{3}-\d\d\b")


@pytest.mark.parametrize("case", sorted(set(ID.findall(TESTED.partition("| area |")[2]))))
def test_a_case_is_pinned_by_a_test_that_carries_its_id(case: str) -> None:
    assert re.search(case.replace("-", "[-_]"), CODE)


def test_a_case_that_is_left_out_has_its_reason() -> None:
    rows = [line for line in LEFT_OUT.splitlines() if ID.search(line)]
    assert rows and all(len(row.split("|")[2].strip()) > 10 for row in rows)
