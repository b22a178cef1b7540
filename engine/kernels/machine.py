"""What this processor and this torch can do: the facts that a choice of kernels rests on."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Machine(NamedTuple):
    has_bfloat16_units: bool
    """AVX512-BF16 or AMX."""
    has_fbgemm: bool
    """Packed float16 weights, on x86."""
    has_cuda: bool


def this_machine() -> Machine:
    return Machine(
        has_bfloat16_units=torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported(),
        has_fbgemm="fbgemm" in torch.backends.quantized.supported_engines,
        has_cuda=torch.cuda.is_available(),
    )
