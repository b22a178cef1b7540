"""POST /v1/chat/completions: from the body to a running request, and on to its response."""

from __future__ import annotations

from array import array

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from engine.frontends.openai.answers import Answers
from engine.frontends.openai.body import read_json
from engine.frontends.openai.chat_writer import ChatWriter
from engine.frontends.openai.conversation import Conversation, encode_conversation
from engine.frontends.openai.output import output
from engine.frontends.openai.prompts import last_tokens
from engine.frontends.openai.protocol import ChatRequest, Json, chat_decoder
from engine.frontends.openai.schema import describes
from engine.frontends.openai.service import Service, cache_salt, head, priority
from engine.frontends.openai.streaming import EventStream, WholeAnswer
from engine.frontends.openai.translate import chat_params, check_model, check_stream, refuse


def routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/chat/completions", openapi_extra=describes(ChatRequest))
    async def create_chat_completion(request: Request) -> Response:
        """An answer to a conversation, whole or streamed."""
        fields = await read_json(request, chat_decoder, service.config)
        return await respond(service, fields, request)

    return router


async def respond(service: Service, fields: ChatRequest, request: Request) -> Response:
    """Raises ClientError, CapacityError, EngineDead before anything runs."""
    engine = service.engine
    refuse(fields)
    check_model(fields.model, engine.limits)
    check_stream(fields)
    naming = head(service, "chatcmpl", fields.request_id, request)
    params = chat_params(fields, engine.limits.defaults)
    engine.check(params)
    stream = await engine.generate(
        await prompt_tokens(service, fields),
        params,
        priority=priority(service, fields.priority),
        cache_salt=cache_salt(fields.cache_salt),
    )
    follow = EventStream if fields.stream else WholeAnswer
    return follow(Answers([stream]), ChatWriter(output(service, fields, naming, [stream], params.logprobs or 0)))


async def prompt_tokens(service: Service, fields: ChatRequest) -> array[int]:
    conversation = Conversation(
        fields.messages,
        add_generation_prompt=fields.add_generation_prompt,
        continue_final_message=fields.continue_final_message,
        add_special_tokens=fields.add_special_tokens,
        template_kwargs=template_kwargs(fields),
    )
    tokens = await encode_conversation(service.engine, conversation)
    if fields.truncate_prompt_tokens is None:
        return tokens
    return await last_tokens(service.engine, tokens, fields.truncate_prompt_tokens, add_special_tokens=False)


def template_kwargs(fields: ChatRequest) -> dict[str, Json] | None:
    if fields.reasoning_effort is None:
        return fields.chat_template_kwargs
    return {"reasoning_effort": fields.reasoning_effort, **(fields.chat_template_kwargs or {})}
