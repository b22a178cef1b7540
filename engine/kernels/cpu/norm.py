"""RMSNorm in torch (arXiv 1910.07467)."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """x: float32 [..., n]; weight: [n]. Written out: the bits of torch's own, which is slow on many rows."""
    mean_square = x.square().mean(-1, keepdim=True)
    return x.mul(mean_square.add_(epsilon).rsqrt_()).mul_(weight)
