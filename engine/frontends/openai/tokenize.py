"""POST /tokenize and /detokenize, GET /tokenizer_info: vLLM's shapes, read by lm-eval's remote tokenizer.

The first two answer under /v1 as well, as SGLang's do: clients with a base URL of /v1 reach them there.
"""

from __future__ import annotations

import asyncio
from array import array

from fastapi import APIRouter
from msgspec import Struct
from msgspec.json import encode as to_json
from starlette.requests import Request
from starlette.responses import Response

from engine.base.errors import ClientError
from engine.client.async_engine import AsyncEngine
from engine.frontends.openai.body import read_json
from engine.frontends.openai.conversation import Conversation, encode_conversation
from engine.frontends.openai.prompts import encode
from engine.frontends.openai.protocol import (
    DetokenizeRequest,
    TokenizeRequest,
    detokenize_decoder,
    tokenize_decoder,
)
from engine.frontends.openai.schema import describes, fails
from engine.frontends.openai.service import Service
from engine.frontends.openai.translate import check_model, refuse

INLINE_TOKENS = 4096


class Tokens(Struct):
    """What a prompt becomes. token_strs: null unless asked for."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class Text(Struct):
    """What token ids stand for."""

    prompt: str


def routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/tokenize", openapi_extra=describes(TokenizeRequest))
    @router.post("/tokenize", openapi_extra=describes(TokenizeRequest))
    async def tokenize(request: Request) -> Response:
        """The token ids of a prompt, or of messages as chat would send them."""
        fields = await read_json(request, tokenize_decoder, service.config)
        return answer(await tokens(service, fields))

    @router.post("/v1/detokenize", openapi_extra=describes(DetokenizeRequest))
    @router.post("/detokenize", openapi_extra=describes(DetokenizeRequest))
    async def detokenize(request: Request) -> Response:
        """The text of token ids."""
        fields = await read_json(request, detokenize_decoder, service.config)
        check_model(fields.model, service.engine.limits)
        return answer(Text(await decode(service, fields.tokens)))

    @router.get("/tokenizer_info", openapi_extra=fails())
    async def tokenizer_info() -> Response:
        """Special tokens, sizes and the chat template."""
        return answer(facts(service.engine))

    return router


def answer(body: Struct | dict[str, object]) -> Response:
    return Response(to_json(body), media_type="application/json")


async def tokens(service: Service, fields: TokenizeRequest) -> Tokens:
    """Raises ClientError."""
    engine = service.engine
    refuse(fields)
    check_model(fields.model, engine.limits)
    token_ids = await prompt_tokens(service, fields)
    names = [service.texts.of(token_id).name for token_id in token_ids] if fields.return_token_strs else None
    return Tokens(len(token_ids), engine.limits.max_model_len, token_ids.tolist(), names)


async def prompt_tokens(service: Service, fields: TokenizeRequest) -> array[int]:
    if (fields.prompt is None) == (fields.messages is None):
        raise ClientError("Send either `prompt` or `messages`.", param="prompt")
    if fields.prompt is not None:
        return await encode(service.engine, fields.prompt, add_special_tokens=fields.add_special_tokens is not False)
    conversation = Conversation(
        fields.messages or [],
        add_generation_prompt=fields.add_generation_prompt,
        continue_final_message=fields.continue_final_message,
        add_special_tokens=fields.add_special_tokens,
        template_kwargs=fields.chat_template_kwargs,
    )
    return await encode_conversation(service.engine, conversation)


async def decode(service: Service, token_ids: list[int]) -> str:
    """Off the event loop where it would take long."""
    if len(token_ids) <= INLINE_TOKENS:
        return service.engine.decode(token_ids)
    return await asyncio.to_thread(service.engine.decode, token_ids)


def facts(engine: AsyncEngine) -> dict[str, object]:
    """In the words of tokenizer_config.json, for clients that build prompts themselves. Raises ClientError."""
    text = engine.text
    source = {} if text.chat is None else {"chat_template": text.chat.source}
    roles = dict.fromkeys(("bos_token", "eos_token", "pad_token"))
    return {**roles, **text.tokenizer.info(), "model_max_length": engine.limits.max_model_len, **source}
