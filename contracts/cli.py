"""The `contracts` command: exit 0 clean, 1 findings, 2 could not run."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from contracts import __version__
from contracts.finding import Finding, Source
from contracts.rules import RULES

HELP = "Check Python sources against the rules of a serving engine. Reads the code; imports none of it."


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="contracts", description=HELP)
    parser.add_argument("--version", action="version", version=f"contracts {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    checking = commands.add_parser("check", help="print every finding under PATH")
    checking.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    checking.set_defaults(run=lambda options: check(options.paths))
    listing = commands.add_parser("rules", help="list the rules")
    listing.set_defaults(run=lambda _: show_rules())
    options = parser.parse_args(argv)
    return int(options.run(options))


def check(paths: Sequence[Path]) -> int:
    files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]
    if not files:
        print("contracts: no Python file there", file=sys.stderr)
        return 2
    findings = sorted(finding for file in files for finding in findings_of(file))
    for finding in findings:
        print(finding)
    print(f"{len(files)} files, {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


def findings_of(file: Path) -> Iterator[Finding]:
    """A file that does not parse is a finding, never a crash."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        line = error.lineno if isinstance(error, SyntaxError) and error.lineno else 1
        yield Finding(str(file), line, 1, "EW000", f"does not parse: {error}")
        return
    source = Source(file, module_of(file), tree)
    for rule in RULES.values():
        yield from rule(source)


def module_of(file: Path) -> str:
    """The dotted name, from the outermost folder that is a package."""
    parts = [] if file.stem == "__init__" else [file.stem]
    folder = file.resolve().parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


def show_rules() -> int:
    for code, rule in RULES.items():
        print(f"{code}  {(rule.__doc__ or '').splitlines()[0]}")
    return 0
