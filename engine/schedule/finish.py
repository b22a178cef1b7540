"""When an answer ends. The rules, and nothing else."""

from __future__ import annotations

from array import array

from engine.schedule.request import Request
from engine.wire.output import FinishReason


def append(request: Request, drawn: array[int]) -> tuple[int, FinishReason | None]:
    """Adds drawn tokens up to the first that ends the answer: how many were added, and why it ended (or None)."""
    for added, token in enumerate(drawn, 1):
        request.token_ids.append(token)
        if (reason := finish_reason(request, token)) is not None:
            return added, reason
    if not drawn and request.is_full_length and not request.num_uncomputed:
        return 0, FinishReason.LENGTH
    return len(drawn), None


def finish_reason(request: Request, token: int) -> FinishReason | None:
    """Why the answer ends with this token, its last. An end id counts once min_tokens came before it.

    The context only ends here: nothing is shifted out of it, so a request takes at most max_tokens draws.
    """
    if token in request.sampling.end_ids and request.num_output > request.sampling.min_tokens:
        return FinishReason.END
    return FinishReason.LENGTH if len(request.token_ids) >= request.length_limit else None


def dead_end(request: Request, capacity: int) -> tuple[str, int] | None:
    """Why a request that has not ended can still not go on, as (message, status); None when it can.

    capacity: tokens of the longest sequence that the KV cache holds.
    """
    if not request.num_uncomputed:
        return "no token was drawn for the request", 500
    if len(request.token_ids) > capacity:
        return f"{len(request.token_ids)} tokens do not fit in the KV cache, which holds {capacity}", 400
    return None
