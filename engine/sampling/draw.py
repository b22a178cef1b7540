"""Counter-based randomness, and the draw of one id by inverse CDF.

Owns how (seed, position) becomes a number and how that number becomes an id. Keeps no generator state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.sampling.rows import Scores

Float64 = NDArray[np.float64]
UInt64 = NDArray[np.uint64]

ROUNDS = 10
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
WORD_BITS = np.uint64(32)
WORD = np.uint64(0xFFFFFFFF)

BLOCK = 256
"""Ids whose weights are summed before the search goes into one block: the search never makes a running sum of all."""


def uniforms(seeds: UInt64, positions: UInt64) -> Float64:
    """One number in [0, 1) with 53 random bits for each (seed, position); ([R], [R]) -> [R]. Independent of order."""
    high, low, _, _ = philox(seeds, positions)
    bits = (high << np.uint64(21)) ^ (low >> np.uint64(11))
    return bits.astype(np.float64) * 2.0**-53


def philox(keys: UInt64, counters: UInt64) -> tuple[UInt64, UInt64, UInt64, UInt64]:
    """Philox4x32-10 with a 64-bit key and the counter in the two low words; four 32-bit words, each [R].

    Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC11), section 4.3.
    """
    first, second = counters & WORD, counters >> WORD_BITS
    third, fourth = np.zeros_like(first), np.zeros_like(first)
    low_key, high_key = keys & WORD, keys >> WORD_BITS
    for number in range(ROUNDS):
        low_round = (low_key + np.uint64(number * KEY_STEPS[0])) & WORD
        high_round = (high_key + np.uint64(number * KEY_STEPS[1])) & WORD
        even, odd = first * MULTIPLIERS[0], third * MULTIPLIERS[1]
        first, second, third, fourth = (
            (odd >> WORD_BITS) ^ second ^ low_round,
            odd & WORD,
            (even >> WORD_BITS) ^ fourth ^ high_round,
            even & WORD,
        )
    return first, second, third, fourth


def draw_of_few(weights: Float64, uniform: float) -> int:
    """Index of the first weight whose running sum passes uniform * total. Weights >= 0, some > 0; [n]."""
    return passing(np.cumsum(weights), uniform)


def draw_of_all(weights: Scores, uniform: float) -> int:
    """The same over a whole vocabulary of float32 weights, summed in float64."""
    starts = np.arange(0, len(weights), BLOCK)
    sums = np.cumsum(np.add.reduceat(weights, starts, dtype=np.float64))
    block = passing(sums, uniform)
    before = sums[block - 1] if block else 0.0
    inside = np.cumsum(weights[starts[block] : starts[block] + BLOCK], dtype=np.float64)
    offset = int(np.searchsorted(inside, uniform * sums[-1] - before, side="right"))
    # A block's sum and its running sum may round apart; the last id with weight of its own is the end.
    last = int(np.searchsorted(inside, inside[-1], side="left"))
    return int(starts[block]) + min(offset, last)


def passing(sums: Float64, uniform: float) -> int:
    """Index of the first running sum above uniform * total, a product that never rounds up to the total."""
    return int(np.searchsorted(sums, uniform * sums[-1], side="right"))
