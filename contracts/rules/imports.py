"""EW711: a module named by a string is an import that no layer check sees, so only composition roots may do it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contracts.finding import Finding, Source, at

ALLOWED = ("engine.models.registry", "engine.launch", "engine.process.spawn")
MODULE_NAME = re.compile(r"engine(\.\w+)+(:\w+)?")
MESSAGE = "names a module by a string; import it, or move this to models/registry or launch"


def string_import(source: Source) -> Iterator[Finding]:
    """Every string that spells a module of the engine, outside the places that may compose."""
    if source.module == "engine" or source.module.startswith(ALLOWED) or not source.module.startswith("engine"):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE_NAME.fullmatch(node.value):
            yield at(source, node, "EW711", MESSAGE)
