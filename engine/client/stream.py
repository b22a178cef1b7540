"""RequestStream: what a frontend holds of one running request, its siblings (n answers) together.

Owns the request's end: whoever lets go of the stream ends what still runs. Knows no HTTP.
"""

from __future__ import annotations

from array import array
from types import TracebackType

from engine.wire.chunk import Chunk
from engine.wire.output import LogprobRows


class RequestStream:
    """Chunks of all siblings, each tagged with its index, text decoded.

    `async with await engine.generate(...) as stream: async for chunk in stream: ...`; iteration ends after every
    sibling's last chunk (`chunk.finished`). chunk.text is "" where tokens have no text yet, and None where nobody
    decodes (no tokenizer, or detokenize=False). The sum of len(chunk.token_ids) is the usage's completion_tokens.
    """

    prompt_token_ids: array[int]
    num_siblings: int

    async def get(self) -> Chunk:
        """The next chunk: everything of one sibling that has come and not been taken.

        Raises the request's failure, after the chunks that came before it: CapacityError (503 with retry_after_s),
        ClientError (400: it can never fit), EngineFault (500), EngineDead (503). EngineFault after the end.
        """
        raise NotImplementedError

    @property
    def is_done(self) -> bool:
        """Every sibling's last chunk has been taken."""
        raise NotImplementedError

    @property
    def prompt_logprobs(self) -> LogprobRows | None:
        """Rows of prompt tokens 1.. (the first token has none); complete once a chunk has been taken."""
        raise NotImplementedError

    @property
    def num_cached_tokens(self) -> int:
        """Prompt tokens found in the prefix cache, as far as known."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of everything and sends one Abort for the siblings that still run. Safe to call twice."""

    def __aiter__(self) -> RequestStream:
        return self

    async def __anext__(self) -> Chunk:
        raise NotImplementedError

    async def __aenter__(self) -> RequestStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
