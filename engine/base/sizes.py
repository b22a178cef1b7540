"""Numbers as people write them: 8k, 2GiB, 512MiB."""

from __future__ import annotations

import re

UNITS = {
    "": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3,
    "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3,
}  # fmt: skip
PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_size(text: str) -> int:
    """`8k` is 8000, `8K` is 8192, `2GiB` is 2 * 1024**3. Raises ValueError for anything else."""
    match = PATTERN.fullmatch(text)
    unit = match and UNITS.get(match[2] if len(match[2]) < 2 else match[2].lower())
    if not match or unit is None or not (float(match[1]) * unit).is_integer():
        raise ValueError(f"{text!r} is not a number such as 4096, 8k or 2GiB")
    return int(float(match[1]) * unit)
