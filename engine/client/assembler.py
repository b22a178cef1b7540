"""Assembler: one sibling's deltas become chunks, and its tokens text.

Owns duplicates, gaps and the public words for why an answer ended. Knows no other sibling and no reader. Text is
decoded when a chunk is taken, once for all tokens that wait; only stop strings need it earlier (stopped_text).
"""

from __future__ import annotations

from array import array

from engine.base.errors import EngineFault
from engine.client.admit import Admitted
from engine.client.logprobs import count_rows, slice_rows
from engine.client.stopped_text import StoppedText
from engine.text.detokenizer import Detokenizer, HasPieces
from engine.wire.chunk import Chunk
from engine.wire.output import Delta, FinishReason, LogprobRows
from engine.wire.tokens import unpack

FINISH_WORDS = {FinishReason.END: "stop", FinishReason.LENGTH: "length", FinishReason.ABORT: "abort"}
"""The engine's reasons in the public words; no other word leaves this room."""
PROMPT_TAIL = 8
"""Tokens before the answer that a detokenizer sees: they decide on a leading space."""
FIRST_ATTEMPT = 1


class Assembler:
    """One sibling, from its first delta to its last."""

    __slots__ = (
        "admitted",
        "attempt",
        "detokenizer",
        "end_text",
        "index",
        "is_finished",
        "is_told_of_cache",
        "num_cached_tokens",
        "num_tokens",
        "prompt_logprobs",
        "stopped",
    )

    def __init__(self, index: int, admitted: Admitted, tokenizer: HasPieces | None) -> None:
        self.index = index
        self.admitted = admitted
        self.attempt = FIRST_ATTEMPT
        self.num_tokens = 0
        """Tokens received; those that stop strings cut off count too."""
        self.num_cached_tokens = 0
        self.is_told_of_cache = False
        self.is_finished = False
        self.end_text: str | None = None
        """Once the last token is known to have ended the answer: what stands for it in the text."""
        self.prompt_logprobs: list[LogprobRows] = []
        self.detokenizer: Detokenizer | None = None
        self.stopped: StoppedText | None = None
        rules = admitted.text
        if rules is not None and tokenizer is not None:
            self.detokenizer = Detokenizer(
                tokenizer,
                skip_special_tokens=rules.skip_special_tokens,
                spaces_between_special_tokens=rules.spaces_between_special_tokens,
                prompt_tail=admitted.prompt_ids[-PROMPT_TAIL:],
            )
            self.stopped = StoppedText(rules, self.detokenizer) if rules.stop else None

    def accept(self, delta: Delta, now: float) -> Chunk | None:
        """What the delta adds that has not been seen, None where that is nothing yet. now: monotonic seconds.

        Raises EngineFault when tokens are missing before it, or its columns contradict each other.
        """
        if self.is_finished or delta.attempt != self.attempt:
            return None
        tokens, logprobs = unpack(delta.tokens), delta.logprobs
        if delta.start != self.num_tokens or logprobs is not None:
            tokens, logprobs = self.news(delta.start, tokens, logprobs)
        self.num_tokens += len(tokens)
        if delta.num_cached:
            self.num_cached_tokens = delta.num_cached
        if delta.prompt_logprobs is not None:
            self.prompt_logprobs.append(delta.prompt_logprobs)
        if self.admitted.prompt_only:
            return None if delta.finish is None else self.empty_chunk(delta.finish, now)
        if not tokens and delta.finish is None:
            return None
        chunk = self.chunk_of(tokens, logprobs, delta.finish, now)
        if chunk is not None and not self.is_told_of_cache:
            chunk.num_cached_tokens = self.num_cached_tokens
            self.is_told_of_cache = True
        return chunk

    def news(
        self, start: int, tokens: array[int], logprobs: LogprobRows | None
    ) -> tuple[array[int], LogprobRows | None]:
        """The tokens, and their log probabilities, that no earlier delta brought."""
        known = self.num_tokens - start
        if known < 0:
            raise EngineFault("the engine lost tokens of an answer")
        if logprobs is not None and count_rows(logprobs) != len(tokens):
            raise EngineFault("more or fewer log probabilities than tokens")
        if known:
            known = min(known, len(tokens))
            if logprobs is not None:
                logprobs = slice_rows(logprobs, known, len(tokens))
            tokens = tokens[known:]
        return tokens, logprobs

    def chunk_of(
        self, tokens: array[int], logprobs: LogprobRows | None, finish: FinishReason | None, now: float
    ) -> Chunk | None:
        reason: str | None = None
        stop_reason: int | str | None = None
        if finish is not None:
            reason, stop_reason = self.ending(tokens, finish)
            self.is_finished = True
        text: str | None = None
        if self.stopped is not None:
            tokens, text, logprobs, matched = self.stopped.push(tokens, logprobs, self.end_text, self.is_finished)
            if matched is not None:
                reason, stop_reason, self.is_finished = "stop", matched, True
            elif not tokens and not text and not self.is_finished:
                return None
        return Chunk(self.index, tokens, text, self.is_finished, reason, stop_reason, logprobs, None, now, now)

    def empty_chunk(self, finish: FinishReason, now: float) -> Chunk:
        """The one chunk where only the prompt was asked for: the token that was drawn all the same is dropped."""
        self.is_finished = True
        text = None if self.detokenizer is None else ""
        word = "abort" if finish is FinishReason.ABORT else "length"
        return Chunk(self.index, array("i"), text, True, word, None, None, self.num_cached_tokens, now, now)

    def ending(self, tokens: array[int], finish: FinishReason) -> tuple[str, int | str | None]:
        """(finish_reason, stop_reason): the latter only where another end id than the model's own was drawn."""
        if finish is not FinishReason.END or not tokens:
            return FINISH_WORDS[finish], None
        last = tokens[-1]
        name = self.end_name(last)
        self.end_text = self.text_of_end(name)
        return "stop", name if name is not None or last in self.admitted.own_ends else last

    def end_name(self, token: int) -> str | None:
        """The stop string that names this end id."""
        return None if self.admitted.text is None else self.admitted.text.stop_names.get(token)

    def text_of_end(self, name: str | None) -> str | None:
        """An end id is no part of the text unless the stop is to be shown. None: the token is decoded as any other."""
        rules = self.admitted.text
        if rules is None or not rules.include_stop:
            return ""
        return None if name is None or not rules.skip_special_tokens else name

    def finish_text(self, chunk: Chunk) -> Chunk:
        """The chunk with its text, as it is taken: in order, each chunk once."""
        if self.detokenizer is None or chunk.text is not None:
            return chunk
        tokens, end = chunk.token_ids, ""
        if chunk.finished and self.end_text is not None:
            tokens, end = tokens[:-1], self.end_text
        text = self.detokenizer.push(tokens)
        if chunk.finished:
            text = f"{text}{self.detokenizer.flush()}{end}"
        return Chunk(
            chunk.index,
            chunk.token_ids,
            text,
            chunk.finished,
            chunk.finish_reason,
            chunk.stop_reason,
            chunk.logprobs,
            chunk.num_cached_tokens,
            chunk.first_token_time,
            chunk.last_token_time,
        )
