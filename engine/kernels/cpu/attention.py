"""Attention in torch: one row each of many sequences, or neighbouring rows of one.

Owns the two calls and the least rows in them. Knows no cache and no layer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

LEAST_QUERIES = 4
"""Fewer query rows for a key head take kernels for vectors, which round differently; see canonical.py."""


def attend_rows(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """One row of each of n sequences; heads that share a key head stand as the rows of a call.

    queries: [n, kv_heads, heads / kv_heads or LEAST_QUERIES, dim], zeros where padded; keys, values: [n, kv_heads,
    slots, dim]; mask: [n, 1, 1, slots], 0 or -inf. Returns the shape of queries.
    """
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def attend_tile(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Neighbouring rows of one sequence.

    queries: [rows, heads, dim]; keys, values: [1, kv_heads, slots, dim]; mask: [rows, slots], or with the last row
    repeated up to LEAST_QUERIES. Returns the shape of queries.
    """
    number = len(queries)
    by_head = queries.transpose(0, 1)[None]
    if number < LEAST_QUERIES:
        by_head = F.pad(by_head, (0, 0, 0, LEAST_QUERIES - number))
    attended = F.scaled_dot_product_attention(by_head, keys, values, attn_mask=mask, enable_gqa=True)
    return attended[0, :, :number].transpose(0, 1)
