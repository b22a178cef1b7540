"""client -> core: a request in its final form, and the word that nobody wants it any more."""

from __future__ import annotations

from msgspec import Struct


class Sampling(Struct, frozen=True, gc=False, array_like=True):
    """SamplingParams after client/admit: checked, defaults filled in, seed drawn, strings turned into ids.

    The next token is a pure function of (logits, these fields, position, the tokens so far).
    """

    max_tokens: int
    min_tokens: int = 0
    end_ids: tuple[int, ...] = ()
    """Ids that end the answer: the model's end ids (unless ignore_eos) and stop_token_ids; masked below min_tokens."""
    temperature: float = 0.0
    top_k: int = 0
    """0: off."""
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    bias_ids: tuple[int, ...] = ()
    bias_values: tuple[float, ...] = ()
    allowed_ids: tuple[int, ...] = ()
    """Empty: every id."""
    bad_sequences: tuple[tuple[int, ...], ...] = ()
    """Token sequences that must not be completed."""


class Submit(Struct, frozen=True, gc=False, array_like=True, tag="submit"):
    """client -> core: continue these tokens. One form for new, preempted, resumed and migrated requests.

    tokens: int32 wire bytes of prompt plus answer so far; the first num_prompt of them are the prompt.
    leader: the sibling (same prompt, n > 1) whose prefill this one waits for, 0 for none.
    arrival: seconds of the monotonic clock, the same for all processes of a host.
    """

    request: int
    attempt: int
    tokens: bytes
    num_prompt: int
    sampling: Sampling
    priority: int = 0
    arrival: float = 0.0
    leader: int = 0
    cache_salt: str = ""


class Abort(Struct, frozen=True, gc=False, array_like=True, tag="abort"):
    """client -> core: stop and forget these; unknown ids are fine. Each known one ends with reason ABORT."""

    requests: tuple[int, ...]


class Call(Struct, frozen=True, gc=False, array_like=True, tag="call"):
    """client -> core: run a method of the table in wire/methods; always answered by one Reply with this id."""

    call: int
    method: str
    payload: bytes = b""


ToCore = Submit | Abort | Call
