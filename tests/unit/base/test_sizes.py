from __future__ import annotations

import pytest

from engine.base.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "number"),
    [("4096", 4096), ("8k", 8000), ("8K", 8192), ("2GiB", 2 << 30), ("1.5 MB", 1_500_000), ("512MiB", 512 << 20)],
)
def test_sizes_read_as_people_write_them(text: str, number: int) -> None:
    assert parse_size(text) == number


@pytest.mark.parametrize("text", ["", "x", "-1", "8 parsecs", "1e9", "0x10", "80x", "4t", "4T", "1.9"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        parse_size(text)
