"""What a request's answer must be: the scripted worker's function, applied by itself, one token at a time."""

from __future__ import annotations

from engine.wire.output import FinishReason
from engine.wire.request import Submit
from engine.wire.tokens import unpack
from tests.fakes.scripted_worker import next_token


def solo_answer(submit: Submit, max_model_len: int) -> tuple[list[int], FinishReason]:
    """(tokens after those submitted, why they end), without batch, budget, cache or preemption."""
    tokens = list(unpack(submit.tokens))
    num_known, sampling = len(tokens), submit.sampling
    limit = min(submit.num_prompt + sampling.max_tokens, max_model_len)
    while len(tokens) < limit:
        num_output = len(tokens) - submit.num_prompt
        tokens.append(next_token(tokens))
        if tokens[-1] in sampling.end_ids and num_output >= sampling.min_tokens:
            return tokens[num_known:], FinishReason.END
    return tokens[num_known:], FinishReason.LENGTH
