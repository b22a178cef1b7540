"""float16 weights packed by FBGEMM, multiplied with float32 activations: half the memory traffic of float32.

Owns the packing and its row counts. FBGEMM cuts a batch into kernels of 1 to 14 rows, and the kernels for one and two
rows round differently on some processors; so row counts are padded to ones that agree.
"""

from __future__ import annotations

import torch

from engine.kernels.cpu.linear import Linear
from engine.kernels.cpu.slack import Slack

LARGEST_CUT = 120
"""FBGEMM's table of cuts ends here; larger batches repeat it."""


class HalfPackedFormat:
    """What x86 processors without bfloat16 units multiply fastest."""

    table_dtype = torch.float16

    def __init__(self) -> None:
        self.padding = agreeing_counts()
        self.slack = Slack()
        self.shapes: list[tuple[int, int]] = []
        """Of the weights packed so far."""

    def pack(self, weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
        self.shapes.append((weight.shape[0], weight.shape[1]))
        return HalfPackedLinear(weight, bias)

    def padded(self, rows: int) -> int:
        whole, rest = divmod(rows, LARGEST_CUT)
        return whole * LARGEST_CUT + self.padding[rest]

    def settle(self) -> None:
        self.slack.give_back(self.shapes)


class HalfPackedLinear:
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        self.multiply = torch.ops.quantized.linear_dynamic_fp16.default

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = self.multiply(x, self.packed)
        return product


def agreeing_counts() -> list[int]:
    """[LARGEST_CUT + 1]: for each number of rows the next one whose rows have the same bits as in the largest cut."""
    generator = torch.Generator().manual_seed(0)
    layer = HalfPackedLinear(torch.randn(48, 96, generator=generator), None)
    x = torch.randn(2 * LARGEST_CUT, 96, generator=generator)
    whole = layer(x)
    padding = [0] * LARGEST_CUT + [LARGEST_CUT]
    for rows in range(LARGEST_CUT - 1, 0, -1):
        padding[rows] = rows if torch.equal(layer(x[:rows]), whole[:rows]) else padding[rows + 1]
    return padding
