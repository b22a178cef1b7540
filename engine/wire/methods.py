"""The methods that a client may call on a core: the one table both sides check at start."""

from __future__ import annotations

CORE_METHODS = (
    "ping",  # answers with nothing: the loop turns
    "reset_prefix_cache",  # forgets every cached block that no running sequence holds
)
