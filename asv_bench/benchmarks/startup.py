"""What a user waits for before anything happens."""

from __future__ import annotations


class Imports:
    """A fresh interpreter that imports the package, or parses a command."""

    version = "1"

    def timeraw_import_engine(self) -> str:
        return "import engine"

    def timeraw_parse_serve(self) -> str:
        return "from engine.cli import build_parser; build_parser().parse_args(['serve'])"

    def timeraw_import_contracts(self) -> str:
        return "import contracts.cli"
