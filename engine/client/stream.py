"""RequestStream: what a frontend holds of one running request, its siblings (n answers) together.

Owns the request's end: whoever lets go of the stream ends what still runs. Knows no HTTP.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from types import TracebackType

from engine.client.assembler import Assembler
from engine.client.collector import StreamOutputCollector
from engine.client.logprobs import join_rows
from engine.wire.chunk import Chunk
from engine.wire.output import LogprobRows


class RequestStream:
    """Chunks of all siblings, each tagged with its index, text decoded.

    `async with await engine.generate(...) as stream: async for chunk in stream: ...`; iteration ends after every
    sibling's last chunk (`chunk.finished`). chunk.text is "" where tokens have no text yet, and None where nobody
    decodes (no tokenizer, or detokenize=False). The sum of len(chunk.token_ids) is the usage's completion_tokens.
    """

    def __init__(
        self,
        requests: tuple[int, ...],
        prompt_token_ids: array[int],
        assemblers: Sequence[Assembler],
        collector: StreamOutputCollector,
        release: Callable[[], None],
        abandon: Callable[[], None],
    ) -> None:
        self.requests = requests
        """The engine's ids of the siblings."""
        self.prompt_token_ids = prompt_token_ids
        self.num_siblings = len(assemblers)
        self.assemblers = assemblers
        self.collector = collector
        self.release = release
        self.abandon = abandon

    async def get(self) -> Chunk:
        """The next chunk: everything of one sibling that has come and not been taken.

        Raises the request's failure, after the chunks that came before it: CapacityError (503 with retry_after_s),
        ClientError (400: it can never fit), EngineFault (500), EngineDead (503). EngineFault after the end.
        """
        return self.decoded(await self.collector.get())

    def get_nowait(self) -> Chunk | None:
        """The same at once; None when nothing waits."""
        chunk = self.collector.get_nowait()
        return None if chunk is None else self.decoded(chunk)

    def decoded(self, chunk: Chunk) -> Chunk:
        return self.assemblers[chunk.index].finish_text(chunk)

    @property
    def is_done(self) -> bool:
        """Every sibling's last chunk has been taken, or the stream is closed."""
        return self.collector.is_done

    @property
    def prompt_logprobs(self) -> LogprobRows | None:
        """Rows of prompt tokens 1.. (the first token has none); complete once a chunk has been taken."""
        return join_rows(self.assemblers[0].prompt_logprobs)

    @property
    def num_cached_tokens(self) -> int:
        """Prompt tokens found in the prefix cache, as far as known."""
        return self.assemblers[0].num_cached_tokens

    def close(self) -> None:
        """Lets go of everything and sends one Abort for the siblings that still run. Safe to call twice."""
        if not self.collector.is_closed:
            self.collector.close()
            self.release()

    def __aiter__(self) -> RequestStream:
        return self

    async def __anext__(self) -> Chunk:
        if self.is_done:
            raise StopAsyncIteration
        return await self.get()

    async def __aenter__(self) -> RequestStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A caller that was cancelled between the submission and its own `async with` holds nothing to close.
        # This may run in any thread, so it only notes the loss; the engine sends the Abort from its own.
        if not self.collector.is_closed:
            self.abandon()
