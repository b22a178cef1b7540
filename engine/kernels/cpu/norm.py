"""RMSNorm in torch (arXiv 1910.07467), in few operators: on one row, each costs more than its numbers do."""

from __future__ import annotations

import torch


class RmsNorms:
    """Keeps the epsilons of the model as tensors."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.epsilons: dict[float, torch.Tensor] = {}

    def __call__(self, x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
        """x: float32 [..., n]; weight: [n]."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = torch.addcmul(self.tensor(epsilon), length, length, value=1 / x.shape[-1]).rsqrt_()
        return x.mul(scale).mul_(weight)

    def tensor(self, epsilon: float) -> torch.Tensor:
        if epsilon not in self.epsilons:
            self.epsilons[epsilon] = torch.tensor([epsilon], device=self.device)
        return self.epsilons[epsilon]
