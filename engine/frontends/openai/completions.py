"""POST /v1/completions: from the body to one running request a prompt, and on to their response."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import ExitStack

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from engine.base.errors import ClientError
from engine.client.async_engine import AsyncEngine
from engine.client.stream import RequestStream
from engine.frontends.openai.answers import Answers
from engine.frontends.openai.body import read_json
from engine.frontends.openai.completion_writer import CompletionWriter
from engine.frontends.openai.output import output
from engine.frontends.openai.prompts import MAX_PROMPTS, Prompt, last_tokens, prompts
from engine.frontends.openai.protocol import CompletionRequest, completion_decoder
from engine.frontends.openai.schema import describes
from engine.frontends.openai.service import Service, cache_salt, head, priority
from engine.frontends.openai.streaming import EventStream, WholeAnswer
from engine.frontends.openai.translate import check_model, check_stream, completion_params, refuse
from engine.wire.params import SamplingParams


def routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/completions", openapi_extra=describes(CompletionRequest))
    async def create_completion(request: Request) -> Response:
        """Continues one or many prompts, whole or streamed."""
        fields = await read_json(request, completion_decoder, service.config)
        return await respond(service, fields, request)

    return router


async def respond(service: Service, fields: CompletionRequest, request: Request) -> Response:
    """Raises ClientError, CapacityError, EngineDead before anything is left running."""
    engine = service.engine
    refuse(fields)
    check_model(fields.model, engine.limits)
    check_stream(fields)
    naming = head(service, "cmpl", fields.request_id, request)
    params = completion_params(fields, engine.limits.defaults)
    engine.check(params, allow_zero=bool(fields.echo))
    wanted = prompts(fields.prompt)
    if len(wanted) * params.n > MAX_PROMPTS:
        # More would hold up every other stream while they are submitted, and then find the queue full.
        raise ClientError(f"`n` times the number of prompts is more than {MAX_PROMPTS}.", param="n")
    if fields.echo and not engine.limits.has_tokenizer:
        raise ClientError("`echo` needs a tokenizer, and this server runs without one.", param="echo")
    with ExitStack() as started:
        # All or none: where one prompt is refused, those already submitted are aborted.
        streams = []
        for prompt in wanted:
            streams.append(await start(service, fields, prompt, params))
            started.callback(streams[-1].close)
        writer = CompletionWriter(
            output(service, fields, naming, streams, params.logprobs or 0),
            has_logprobs=params.logprobs is not None,
            echoes=echoes(engine, fields, wanted, streams) if fields.echo else None,
        )
        started.pop_all()
    follow = EventStream if fields.stream else WholeAnswer
    return follow(Answers(streams), writer)


async def start(service: Service, fields: CompletionRequest, prompt: Prompt, params: SamplingParams) -> RequestStream:
    engine = service.engine
    adds_special = fields.add_special_tokens is not False
    cut: Prompt | array[int] = prompt
    if fields.truncate_prompt_tokens is not None:
        cut = await last_tokens(engine, prompt, fields.truncate_prompt_tokens, add_special_tokens=adds_special)
    return await engine.generate(
        cut,
        params,
        priority=priority(service, fields.priority),
        cache_salt=cache_salt(fields.cache_salt),
        add_special_tokens=adds_special,
        allow_zero=bool(fields.echo),
    )


def echoes(
    engine: AsyncEngine, fields: CompletionRequest, wanted: Sequence[Prompt], streams: Sequence[RequestStream]
) -> list[str]:
    """The prompts as text: as they came, or decoded where they came as token ids or were cut."""
    is_cut = fields.truncate_prompt_tokens is not None
    skips = fields.skip_special_tokens is not False
    return [
        prompt
        if isinstance(prompt, str) and not is_cut
        else engine.decode(stream.prompt_token_ids, skip_special_tokens=skips)
        for prompt, stream in zip(wanted, streams, strict=True)
    ]
