"""Keeps the garbage collector off the hot path: what start-up made is frozen, what comes later is still collected.

gc.freeze() moves the start-up heap out of the collector's sight (https://docs.python.org/3/library/gc.html#gc.freeze),
so a full pass no longer walks the model, the imports and the tables that live as long as the process.
"""

from __future__ import annotations

import gc


def pause_collector() -> None:
    """While a process starts, it makes a great many objects and drops few: looking for cycles takes a tenth of it."""
    gc.disable()


def freeze_heap() -> int:
    """Collects what start-up left behind, freezes the rest, and lets the collector work from here on.

    Returns how many objects are frozen.
    """
    for generation in range(3):
        gc.collect(generation)
    gc.freeze()
    gc.enable()
    return gc.get_freeze_count()


def unfreeze_heap() -> None:
    """Gives the frozen objects back to the collector, so that an engine torn down in a living process is freed."""
    gc.unfreeze()
