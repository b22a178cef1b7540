"""LLM: the engine inside the caller's interpreter, with vLLM's names. Public.

Core and worker run in the calling thread; nothing of the interpreter is changed that close() does not put back.
"""

from __future__ import annotations

import difflib
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType

from engine.base.clock import SystemClock
from engine.base.errors import ConfigError
from engine.client.outputs import RequestOutput
from engine.client.sync_engine import MAX_IN_FLIGHT, Prompt, SyncEngine
from engine.launch.build_client import build_client
from engine.launch.flags import all_flags, resolve
from engine.launch.serve import resolve_model
from engine.wire.inproc import InprocChannel
from engine.wire.params import SamplingParams

SECTIONS = ("model", "cache", "scheduler", "parallel")
Message = Mapping[str, object]


class LLM:
    """A model, ready to answer. `model` is a GGUF file or a Hugging Face folder; left out: SmolLM2-135M-Instruct.

    Other settings are those of `engine serve`, by field name (`max_num_seqs=8`, `kv_cache_memory_bytes="1GiB"`).
    Use it in a `with` block, or close() it: the weights are freed then. Raises ConfigError or ModelFileError.
    """

    def __init__(
        self, model: str | None = None, *, dtype: str = "auto", tensor_parallel_size: int = 1, **settings: object
    ) -> None:
        given = {"dtype": dtype, "tensor_parallel_size": tensor_parallel_size, **settings}
        config = resolve_model(resolve({**checked(given), **({"model": model} if model else {})}, all_flags(SECTIONS)))
        parts = build_client(config)
        # Imported here: the computing half brings torch, and `from engine import LLM` alone should not.
        import torch

        from engine.launch.build_core import build_core

        self.torch_threads = torch.get_num_threads()
        channel = InprocChannel()
        self.core, _ = build_core(config, channel.core, SystemClock())
        self.client = SyncEngine(
            channel.client,
            parts.admission,
            parts.chat,
            step=self.turn,
            clock=SystemClock(),
            max_in_flight=min(MAX_IN_FLIGHT, config.scheduler.max_num_queued_reqs),
        )
        self.is_closed = False
        self.calling = threading.Lock()
        """Held by the one call that steps the core; calls of other threads wait for their turn."""

    def turn(self) -> None:
        """One step of the core; what it gave is in the channel afterwards."""
        with interrupted_after():
            self.core.turn(0.0)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        priority: Sequence[int] | None = None,
    ) -> list[RequestOutput]:
        """Answers in the order of the prompts: text, or {"prompt_token_ids": [...]}. One prompt may stand alone.

        Every prompt is checked before the first one runs. Raises ClientError for a prompt or a parameter that is wrong.
        """
        with self.calling:
            self.check_open()
            return self.client.generate(prompts, sampling_params, use_tqdm=use_tqdm, priority=priority)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> list[RequestOutput]:
        """The same for one conversation or several, through the model's chat template."""
        with self.calling:
            self.check_open()
            return self.client.chat(
                messages,
                sampling_params,
                use_tqdm=use_tqdm,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message,
            )

    def reset_prefix_cache(self) -> bool:
        """Forgets all cached blocks; False while a running sequence holds some."""
        self.check_open()
        return self.core.reset_prefix_cache(b"") == b"1"

    def close(self) -> None:
        """Frees the model. Safe to call twice."""
        if not self.is_closed:
            self.is_closed = True
            self.client.close()
            self.core.close()
            import torch

            torch.set_num_threads(self.torch_threads)

    def check_open(self) -> None:
        if self.is_closed:
            raise ConfigError("this LLM is closed; make a new one")

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def interrupted_after() -> Iterator[None]:
    """A Ctrl-C that comes in the block takes effect at its end.

    A step that is left half-way leaves core and worker in disagreement, and no later one could run. Python runs
    handlers in the main thread only, and lets no other set them.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])


def checked(given: dict[str, object]) -> dict[str, object]:
    """Refuses a setting that no section has, and says which one is near."""
    known = [flag.field for flag in all_flags(SECTIONS)]
    for name in given.keys() - set(known):
        near = difflib.get_close_matches(name, known, n=1)
        raise ConfigError(f"LLM has no setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return given
