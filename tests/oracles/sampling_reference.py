"""What sampling should do, in plain Python over lists and floats: slow, and short enough to read for truth.

Gives the whole distribution of the next token, so that a test can compare probabilities and not draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, isfinite, log

from engine.wire.request import Sampling


def distribution(logits: Sequence[float], sampling: Sampling, tokens: Sequence[int], num_prompt: int) -> list[float]:
    """Probability of each id; all 0 when nothing can be drawn. Greedy puts 1 on one id."""
    scores = [value if isfinite(value) else -inf for value in logits]
    if max(scores) == -inf:
        return [0.0] * len(scores)
    scores = masked(scores, sampling, tokens[num_prompt:])
    if max(scores) == -inf:
        return [0.0] * len(scores)
    scores = penalised(scores, sampling, tokens, num_prompt)
    order = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    if sampling.temperature < 1e-5:
        return [float(token == order[0]) for token in range(len(scores))]
    best = scores[order[0]]
    weights = [exp((score - best) / sampling.temperature) for score in scores]
    order = [token for token in order if weights[token] >= sampling.min_p]
    if sampling.top_k:
        order = order[: sampling.top_k]
    order = nucleus(order, weights, sampling.top_p)
    total = sum(weights[token] for token in order)
    return [weights[token] / total if token in order else 0.0 for token in range(len(scores))]


def masked(scores: list[float], sampling: Sampling, output: Sequence[int]) -> list[float]:
    if sampling.allowed_ids:
        scores = [score if token in sampling.allowed_ids else -inf for token, score in enumerate(scores)]
    for token, bias in zip(sampling.bias_ids, sampling.bias_values, strict=True):
        scores[token] += bias
    banned = set(sampling.end_ids) if len(output) < sampling.min_tokens else set()
    for *begun, last in sampling.bad_sequences:
        if list(output[len(output) - len(begun) :]) == begun and len(begun) <= len(output):
            banned.add(last)
    left = [-inf if token in banned else score for token, score in enumerate(scores)]
    return left if max(left) > -inf else scores


def penalised(scores: list[float], sampling: Sampling, tokens: Sequence[int], num_prompt: int) -> list[float]:
    output = list(tokens[num_prompt:])
    after = []
    for token, score in enumerate(scores):
        if token in tokens:
            factor = sampling.repetition_penalty
            score = score / factor if score > 0 else score * factor
        if token in output:
            score -= sampling.frequency_penalty * output.count(token) + sampling.presence_penalty
        after.append(score)
    return after


def nucleus(order: list[int], weights: list[float], top_p: float) -> list[int]:
    """The shortest beginning of the order that holds top_p of its weight."""
    total = sum(weights[token] for token in order)
    held = 0.0
    for number, token in enumerate(order, start=1):
        held += weights[token]
        if held >= top_p * total:
            return order[:number]
    return order


def log_probability(logits: Sequence[float], token: int) -> float:
    numbers = [value for value in logits if isfinite(value)]
    best = max(numbers)
    return logits[token] - best - log(sum(exp(value - best) for value in numbers))


def rank(logits: Sequence[float], token: int) -> int:
    order = sorted(range(len(logits)), key=lambda other: (-logits[other], other))
    return 1 + order.index(token)
