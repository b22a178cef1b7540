"""Temperature, min-p, top-k and top-p: which ids may be drawn, and their weights.

Owns the cuts and their ties: of equal scores the lower id is the better one. No row is ever sorted whole.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.sampling.draw import Float64
from engine.sampling.rows import NEVER, Scores

Ids = NDArray[np.int64]

GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy."""
SHORT_LIST = 256
"""How many of the best ids are sorted to look for a nucleus; a wider one is found by buckets."""
LONGEST_SORT = 1024
"""top_k up to here sorts its ids, which makes the cuts after it cheap; a larger one only masks the others."""
BUCKETS = 1024
BUCKETS_PER_UNIT = 32.0
"""Buckets of scores count down from the highest, per unit of score / temperature; the last one takes the rest."""


class Candidates(NamedTuple):
    """ids ascending, and the weight of each: not negative, some positive, not normalised. [n], [n]"""

    ids: Ids
    weights: Float64


def top_candidates(scores: Scores, temperature: float, top_k: int, top_p: float, min_p: float) -> Candidates:
    """The nucleus of what min-p leaves of the top_k best; 0 < top_k. scores: [vocab], some above -inf."""
    ids = best_ids(scores, top_k)
    best = scores[ids].astype(np.float64)
    weights = np.exp((best - best[0]) / temperature)  # best first, so the weights fall from 1
    kept = int(np.count_nonzero(weights >= min_p))
    kept = nucleus_size(weights[:kept], top_p * float(weights[:kept].sum()))
    return in_id_order(ids[:kept], weights[:kept])


def weights_of_all(scores: Scores, temperature: float, min_p: float) -> Scores:
    """exp((score - highest) / temperature) for every id: [vocab], in [0, 1]; 0 where min-p or a mask cut it."""
    with np.errstate(over="ignore", under="ignore"):  # a difference of float32's ends is -inf, and its weight 0
        weights: Scores = scores - scores.max()
        weights /= np.float32(temperature)
        np.exp(weights, out=weights)
    if min_p > 0.0:
        weights *= weights >= min_p
    return weights


def nucleus_candidates(scores: Scores, weights: Scores, goal: float) -> Candidates | None:
    """The best ids that together reach the goal, if a short list of them does; else None.

    A nucleus is the smallest set of best ids that holds top_p of the weight (Holtzman et al., arXiv:1904.09751, 3.1);
    goal is that share of the sum of weights ([vocab], weights_of_all).
    """
    ids = best_ids(scores, SHORT_LIST)
    best = weights[ids].astype(np.float64)
    kept = nucleus_size(best, goal)
    if kept == len(ids):
        return None
    return in_id_order(ids[:kept], best[:kept])


def cut_to_nucleus(scores: Scores, weights: Scores, goal: float, temperature: float) -> None:
    """The same for a nucleus of any width: weights outside it become 0, in place.

    Scores fall into buckets by their distance from the highest, a monotone map, so that only the bucket in which the
    goal is reached has to be sorted.
    """
    with np.errstate(over="ignore"):
        distances = (scores.max() - scores) * np.float32(BUCKETS_PER_UNIT / temperature)
    buckets = np.minimum(distances, np.float32(BUCKETS - 1)).astype(np.int16)
    sums = np.cumsum(np.bincount(buckets, weights=weights, minlength=BUCKETS), dtype=np.float64)
    border = nucleus_size_of_sums(sums, goal) - 1
    inside = np.flatnonzero(buckets == border)
    inside = inside[np.argsort(-scores[inside], kind="stable")]
    better = float(sums[border - 1]) if border else 0.0
    kept = nucleus_size(weights[inside].astype(np.float64), goal - better)
    weights *= buckets <= border  # ten times as fast as assigning 0 through a mask
    weights[inside[kept:]] = 0.0


def best_ids(scores: Scores, k: int) -> Ids:
    """The k ids with the highest scores, best first, equals by lower id; all of them where there are fewer than k.

    The k-th highest of the maxima of at least k disjoint groups is a lower bound of the k-th highest score, so that
    only the few scores from there up are sorted.
    """
    k = min(k, len(scores))
    depth = isqrt(len(scores) // k)
    groups = len(scores) // depth
    maxima = scores[: groups * depth].reshape(depth, groups).max(axis=0)
    bound = np.partition(maxima, groups - k)[groups - k]
    ids = np.flatnonzero(scores >= bound if bound > NEVER else scores > NEVER)
    ids = ids[np.argsort(-scores[ids], kind="stable")[:k]]
    if len(ids) < k:
        ids = np.concatenate((ids, np.flatnonzero(scores == NEVER)[: k - len(ids)]))
    return ids


def only_best(scores: Scores, k: int) -> Scores:
    """A copy with all but the k best at -inf; 0 < k <= vocab."""
    bound = np.partition(scores, len(scores) - k)[len(scores) - k]
    kept = np.where(scores > bound, scores, NEVER)
    equal = np.flatnonzero(scores == bound)[: k - np.count_nonzero(scores > bound)]
    kept[equal] = bound
    return kept


def nucleus_size(weights: Float64, goal: float) -> int:
    """How many of these weights, best first, it takes to reach the goal: at least one, at most all."""
    return nucleus_size_of_sums(np.cumsum(weights), goal)


def nucleus_size_of_sums(sums: Float64, goal: float) -> int:
    reached = int(np.searchsorted(sums, goal, side="left"))
    return min(reached + 1, len(sums))


def in_id_order(ids: Ids, weights: Float64) -> Candidates:
    order = np.argsort(ids)
    return Candidates(ids[order], weights[order])
