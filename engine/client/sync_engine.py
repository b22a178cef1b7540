"""SyncEngine: the offline LLM's client. It steps the core in the calling thread until every answer is there.

Every prompt is checked before the first one runs. The first request that fails ends the others and is raised: a list
with holes would be read as an answer.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tqdm import tqdm

from engine.base.clock import Clock
from engine.base.errors import ClientError
from engine.base.ids import RequestIds
from engine.client.admit import Admission, Admitted
from engine.client.metrics import ClientMetrics
from engine.client.outputs import RequestOutput, completion_output, prompt_entries
from engine.client.requests import RequestTable
from engine.client.stream import RequestStream
from engine.client.text_side import Message, TextSide
from engine.text.chat import ChatTemplate
from engine.wire.channel import ClientEnd
from engine.wire.chunk import Chunk
from engine.wire.output import StepOutput, Stopped
from engine.wire.params import SamplingParams
from engine.wire.request import ToCore

Prompt = str | Sequence[int] | Mapping[str, object]
"""Text, token ids, or one of {"prompt": text} and {"prompt_token_ids": ids}."""
Params = SamplingParams | Sequence[SamplingParams] | None
MAX_IN_FLIGHT = 512
"""Answers submitted and not ended: the core's queue stays far from full."""


class Job(NamedTuple):
    """One prompt on its way. place: its position in the results. prompt: its text, where it came as text."""

    place: int
    prompt: str | None
    admitted: Admitted


class Running(NamedTuple):
    """A job in the core."""

    job: Job
    stream: RequestStream


class SyncEngine:
    """One model over one ClientEnd. `step` runs one step of the core, in this thread."""

    def __init__(
        self,
        end: ClientEnd,
        admission: Admission,
        chat: ChatTemplate | None,
        *,
        step: Callable[[], None],
        clock: Clock,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        self.end = end
        self.admission = admission
        self.text = TextSide(admission, chat)
        self.step = step
        self.max_in_flight = max_in_flight
        self.numbers = 0
        self.metrics = ClientMetrics(admission.limits.model_name)
        self.table = RequestTable(self.send, admission.tokenizer, clock, self.metrics, RequestIds())

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: Params = None,
        *,
        use_tqdm: bool = True,
        priority: Sequence[int] | None = None,
        add_special_tokens: bool = True,
    ) -> list[RequestOutput]:
        """One RequestOutput per prompt, in the order of the prompts.

        params None: the model's defaults. Raises ClientError for a wrong prompt or parameter, and the failure of the
        first request that fails. Interrupted (Ctrl-C), it ends what runs, and the engine stays usable.
        """
        listed = list_of(prompts)
        each = self.params_of(params, len(listed))
        order = list(priority) if priority is not None else [0] * len(listed)
        check_lengths(len(listed), each, order)
        jobs = [
            self.job(place, prompt, own, rank, add_special_tokens)
            for place, (prompt, own, rank) in enumerate(zip(listed, each, order, strict=True))
        ]
        return self.run(jobs, use_tqdm)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        params: Params = None,
        *,
        use_tqdm: bool = True,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> list[RequestOutput]:
        """The same for one conversation or several, through the model's chat template."""
        prompts = [
            self.text.conversation(
                conversation,
                tools=None,
                add_generation_prompt=add_generation_prompt and not continue_final_message,
                continue_final_message=continue_final_message,
                template_kwargs=None,
            ).encode()
            for conversation in conversations(messages)
        ]
        return self.generate(prompts, params, use_tqdm=use_tqdm)

    def close(self) -> None:
        """Says good-bye to the core. Safe to call twice."""
        self.end.close()

    def params_of(self, params: Params, count: int) -> list[SamplingParams]:
        if params is None or isinstance(params, SamplingParams):
            return [params or self.admission.limits.defaults] * count
        return list(params)

    def job(self, place: int, prompt: Prompt, params: SamplingParams, priority: int, special: bool) -> Job:
        if isinstance(prompt, Mapping):
            prompt = unwrapped(prompt)
        admitted = self.admission.admit(prompt, params, priority=priority, add_special_tokens=special)
        return Job(place, prompt if isinstance(prompt, str) else None, admitted)

    def run(self, jobs: Sequence[Job], use_tqdm: bool) -> list[RequestOutput]:
        """Keeps up to max_in_flight answers in the core until all are done."""
        waiting, running = deque(jobs), list[Running]()
        done: dict[int, RequestOutput] = {}
        with progress(len(jobs), use_tqdm) as advance:
            try:
                while waiting or running:
                    self.submit_some(waiting, running)
                    self.step()
                    self.receive()
                    ended = [each for each in running if self.table.is_over(each.stream.requests)]
                    for job, stream in ended:
                        done[job.place] = self.output(job, stream)
                    running[:] = [each for each in running if each.job.place not in done]
                    advance(len(ended))
            finally:
                for _, stream in running:
                    stream.close()
        return [done[job.place] for job in jobs]

    def submit_some(self, waiting: deque[Job], running: list[Running]) -> None:
        """At least one where nothing runs, however many answers it asks for."""
        while waiting:
            in_flight, more = len(self.table.siblings), len(waiting[0].admitted.sampling)
            if in_flight and in_flight + more > self.max_in_flight:
                return
            job = waiting.popleft()
            running.append(Running(job, self.table.open(job.admitted)))

    def output(self, job: Job, stream: RequestStream) -> RequestOutput:
        """Raises the request's failure. Everything has come, so each sibling is one chunk."""
        chunks: dict[int, Chunk] = {}
        while not stream.is_done:
            chunk = stream.get_nowait()
            assert chunk is not None, "a request ended without its last chunk"
            chunks[chunk.index] = chunk
        self.numbers += 1
        tokenizer = self.admission.tokenizer
        token_text = None if tokenizer is None else tokenizer.token_text
        return RequestOutput(
            str(self.numbers),
            job.prompt,
            stream.prompt_token_ids.tolist(),
            [completion_output(chunks[index], token_text) for index in range(stream.num_siblings)],
            True,
            prompt_entries(stream.prompt_logprobs, token_text),
            stream.num_cached_tokens,
        )

    def receive(self) -> None:
        for message in self.end.receive():
            if isinstance(message, StepOutput):
                self.table.deliver(message)
            elif isinstance(message, Stopped):
                self.table.fail_all(message.reason)

    def send(self, message: ToCore) -> None:
        self.end.send(message)


def list_of(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """One prompt may stand alone: a text, a mapping, or a list of token ids."""
    if isinstance(prompts, str | Mapping | array):
        return [prompts]
    if prompts and all(isinstance(item, int) for item in prompts):
        return [[item for item in prompts if isinstance(item, int)]]
    return [item for item in prompts if not isinstance(item, int)]


def unwrapped(prompt: Mapping[str, object]) -> str | list[int]:
    """vLLM's TextPrompt and TokensPrompt. Raises ClientError for another mapping."""
    ids, text = prompt.get("prompt_token_ids"), prompt.get("prompt")
    if isinstance(ids, list | tuple | array):
        return list(ids)
    if isinstance(text, str):
        return text
    raise ClientError('a prompt is a text, or {"prompt": text}, or {"prompt_token_ids": ids}', param="prompt")


def conversations(messages: Sequence[Message] | Sequence[Sequence[Message]]) -> list[Sequence[Message]]:
    """One conversation may stand alone."""
    if messages and all(isinstance(message, Mapping) for message in messages):
        return [[message for message in messages if isinstance(message, Mapping)]]
    return [conversation for conversation in messages if not isinstance(conversation, Mapping)]


def check_lengths(count: int, params: Sequence[SamplingParams], priority: Sequence[int]) -> None:
    if len(params) != count:
        raise ClientError(f"{count} prompts, but {len(params)} sampling parameters", param="sampling_params")
    if len(priority) != count:
        raise ClientError(f"{count} prompts, but {len(priority)} priorities", param="priority")


@contextmanager
def progress(total: int, is_shown: bool) -> Iterator[Callable[[int], object]]:
    """Tells how many prompts are done. A hidden bar is none at all: tqdm starts a thread even for that."""
    if not is_shown:
        yield lambda _: None
        return
    with tqdm(total=total, desc="Processed prompts", unit="prompt") as bar:
        yield bar.update
