"""Attention of a step's rows over the paged cache.

Owns the calls of torch's attention. Knows no layer and no weight.
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from engine.kernels.cpu.cache import PagedCache
from engine.kernels.cpu.step import Chunk, DecodeGroup, Step
from engine.kernels.port import AttentionShape


def paged_attention(
    shape: AttentionShape, cache: PagedCache, layer: int, step: Step, queries: torch.Tensor
) -> torch.Tensor:
    """queries: [R, heads, head_dim], R >= step.num_rows -> [R, heads * head_dim]."""
    out = torch.zeros_like(queries)
    for group in step.groups:
        attend_decode(shape, cache, layer, group, queries, out)
    for chunk in step.chunks:
        attend_chunk(shape, cache, layer, chunk, queries, out)
    return out.view(len(queries), -1)


def attend_decode(
    shape: AttentionShape,
    cache: PagedCache,
    layer: int,
    group: DecodeGroup,
    queries: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """The query heads that share a key head stand as its query rows: [n, kv_heads, heads / kv_heads, head_dim]."""
    number = len(group.mask)
    keys, values = read(shape, cache, layer, group.blocks, number)
    rows = queries[group.rows].view(number, shape.num_kv_heads, -1, shape.head_dim)
    attended = scaled_dot_product_attention(rows, keys, values, attn_mask=group.mask)
    out[group.rows] = attended.reshape(number, shape.num_heads, shape.head_dim)


def attend_chunk(
    shape: AttentionShape, cache: PagedCache, layer: int, chunk: Chunk, queries: torch.Tensor, out: torch.Tensor
) -> None:
    keys, values = read(shape, cache, layer, chunk.blocks, 1)
    for tile in chunk.tiles:
        attended = scaled_dot_product_attention(
            queries[tile.rows].transpose(0, 1)[None],
            keys[:, :, : tile.num_slots],
            values[:, :, : tile.num_slots],
            attn_mask=tile.mask,
            enable_gqa=True,
        )
        out[tile.rows] = attended[0].transpose(0, 1)


def read(
    shape: AttentionShape, cache: PagedCache, layer: int, blocks: torch.Tensor, number: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V, each [number, kv_heads, slots, head_dim]."""
    both = cache.read(layer, blocks).view(2, shape.num_kv_heads, number, -1, shape.head_dim)
    return both[0].transpose(0, 1), both[1].transpose(0, 1)
