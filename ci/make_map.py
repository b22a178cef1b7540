"""Writes docs/map.md from the tree itself: every room, every file, and the first line of what it says of itself.

`python ci/make_map.py` rewrites the page; a test fails when the page and the tree differ.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "map.md"

INTRO = """\
# The map

Written by `python ci/make_map.py` from the tree; a test keeps them equal. Rooms stand in their order: a room may import
those below it only (`[tool.importlinter]` in `pyproject.toml`, checked by `bash ci/lint.sh`). Start with
[`core/loop.py`](../engine/core/loop.py).

```
HTTP ─┐                      ┌─ decide ───────────────┐           ┌─ compute ────────────────────┐
      ├ frontends ─ client ═ core.loop ─ schedule ─ cache ═ StepPlan ═ worker.runner ─ models ─ kernels
  LLM ┘      ▲   Submit/Abort  │                      │           │  rows→inputs→forward→sample  │
             └═ StepOutput ════┘ ◀════════════════ StepResult ════┘
   ═ only wire/ types cross here
```
"""


def rooms() -> list[str]:
    """The rooms of the import layers, top first; those that stand in parentheses are not built yet."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    names = [name.strip() for layer in layers for name in layer.split("|")]
    return [name for name in names if not name.startswith("(")]


def first_line(file: Path) -> str:
    """The first paragraph's first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    return text.partition("\n")[0].replace("|", "\\|")


def section(title: str, folder: Path) -> Iterator[str]:
    yield f"\n## `{title}`\n"
    if (folder / "__init__.py").exists():
        yield first_line(folder / "__init__.py") + "\n"
    yield "| file | |\n|---|---|"
    for file in sorted(folder.rglob("*.py")):
        if file.name != "__init__.py" or file.parent != folder:
            yield f"| [{file.relative_to(folder)}](../{file.relative_to(ROOT)}) | {first_line(file)} |"


def page() -> str:
    lines = [INTRO]
    engine = ROOT / "engine"
    lines.append("\n## `engine/`\n\n| file | |\n|---|---|")
    lines += [f"| [{file.name}](../engine/{file.name}) | {first_line(file)} |" for file in sorted(engine.glob("*.py"))]
    for room in rooms():
        if (engine / room).is_dir():
            lines += section(f"engine/{room}/", engine / room)
    lines += section("contracts/", ROOT / "contracts")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
