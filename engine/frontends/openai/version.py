"""The version that /version and /openapi.json tell: the package's own, said in one place only, its root."""

from __future__ import annotations

import sys

# The root also names launch, which this room must not import; it is loaded whenever this file is.
VERSION: str = vars(sys.modules["engine"])["__version__"]
