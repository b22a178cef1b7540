from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.unit.kernels.backends import FORMATS, NUM_BLOCKS, Backend


@pytest.fixture(params=FORMATS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each back end in turn, with room in its cache."""
    with torch.inference_mode():
        built = FORMATS[request.param]()
        built.kernels.allocate_cache(NUM_BLOCKS)
        yield built
