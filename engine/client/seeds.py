"""Seeds for requests that bring none, and for siblings.

Owns how a server's own seed makes the answers of a run repeatable in the order of their arrival.
"""

from __future__ import annotations

from engine.base.clock import entropy

INT64 = 1 << 63
WORD = (1 << 64) - 1


class Seeds:
    """base -1: unpredictable; otherwise the k-th request without a seed always gets the same one."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.drawn = 0

    def draw(self) -> int:
        """63 bits."""
        if self.base < 0:
            return entropy(63)
        self.drawn += 1
        return scramble(scramble(self.base) + self.drawn) >> 1


def sibling_seed(seed: int, index: int) -> int:
    """seed + index, wrapped into int64: sibling 0 answers as the same request with n=1 does."""
    return (seed + index + INT64) % (2 * INT64) - INT64


def scramble(value: int) -> int:
    """splitmix64's finalizer (Steele, Lea, Flood, OOPSLA 2014): neighbours become unlike. 64 bits."""
    value = (value * 0x9E3779B97F4A7C15) & WORD
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & WORD
    return value ^ (value >> 31)
