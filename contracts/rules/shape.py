"""EW901: a function that is longer than a screen cannot be read in one breath."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contracts.finding import Finding, Source, at

LONGEST = 60


def long_function(source: Source) -> Iterator[Finding]:
    """Functions of more than LONGEST lines, from `def` to the last line."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST:
                yield at(source, node, "EW901", f"{node.name} has {length} lines, at most {LONGEST}: split it by idea")
