"""Rows of logits on the host, and which of their entries are numbers.

Owns the NaN policy. Knows no parameters: each row is looked at alone, so that its neighbours cannot change its bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

Scores = NDArray[np.float32]
"""[vocab], one row of logits or what masks and penalties made of it; -inf is never drawn."""
NEVER = np.float32(-np.inf)


def host_rows(logits: torch.Tensor, rows: Sequence[int]) -> Scores:
    """logits float32 [L, vocab] on any device -> [len(rows), vocab] on the host; a view where that is all of them."""
    if len(rows) != len(logits):
        logits = logits[torch.as_tensor(rows, dtype=torch.int64, device=logits.device)]
    host: Scores = logits.cpu().numpy()
    return host


def best_of_rows(logits: torch.Tensor) -> tuple[NDArray[np.int64], Scores]:
    """The id of each row's highest entry (the lowest such id) and its value; NaN counts as highest. ([L], [L])."""
    if logits.device.type == "cpu":
        return best_on_host(logits.numpy())
    return best_on_device(logits)


def best_on_host(logits: Scores) -> tuple[NDArray[np.int64], Scores]:
    """numpy's argmax is some twenty times as fast as torch's on a CPU."""
    ids = logits.argmax(-1)
    return ids, logits[np.arange(len(ids)), ids]


def best_on_device(logits: torch.Tensor) -> tuple[NDArray[np.int64], Scores]:
    """Only the ids and their values leave the device."""
    best = logits.argmax(-1, keepdim=True)
    return best[:, 0].cpu().numpy(), logits.gather(-1, best)[:, 0].cpu().numpy()


def numbers_of(row: Scores) -> Scores | None:
    """The row, with what is no finite number (NaN, +inf) put at -inf; None when no finite number is left.

    A row of finite numbers is returned as it stands, not copied. One broken entry must neither win nor spoil the
    others, and a row of broken entries must not look like an answer.
    """
    if np.isfinite(row.max()):  # the maximum hands NaN on, and +inf is the largest of all
        return row
    numbers = np.where(np.isfinite(row), row, NEVER)
    return numbers if numbers.max() > NEVER else None
