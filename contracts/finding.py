"""A finding: where, which rule, and what to do. And the parsed file that rules read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One place where a rule does not hold."""

    path: str
    line: int
    column: int
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.code} {self.message}"


@dataclass(frozen=True, slots=True)
class Source:
    """A file, parsed once for all rules."""

    path: Path
    module: str
    tree: ast.Module


Rule = Callable[[Source], Iterator[Finding]]


def at(source: Source, node: ast.stmt | ast.expr, code: str, message: str) -> Finding:
    return Finding(str(source.path), node.lineno, node.col_offset + 1, code, message)
