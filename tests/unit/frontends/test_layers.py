"""The layers around the router: who sees which message of a stream."""

from starlette.types import Message, Receive, Scope, Send

from engine.base.config import FrontendConfig
from engine.frontends.openai import create_app
from tests.fakes.fake_async_engine import FakeEngine, pieces
from tests.fakes.http import Call, chunks

ASK = {"messages": [{"role": "user", "content": "hi"}], "stream": True}


class Watching:
    """A layer that notes what comes through it, as any of ours might."""

    def __init__(self, app, seen: list[Message]) -> None:
        self.app = app
        self.seen = seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def noted(message: Message) -> None:
            self.seen.append(message)
            await send(message)

        await self.app(scope, receive, noted)


async def test_only_the_first_and_the_last_message_of_a_stream_pass_the_layers():
    seen: list[Message] = []
    app = create_app(FakeEngine(pieces(*"abcdefgh")), FrontendConfig())
    edge = app.user_middleware.pop(0)
    app.add_middleware(Watching, seen=seen)
    app.user_middleware.insert(0, edge)
    call = Call(app, "/v1/chat/completions", ASK)
    await call.task
    assert [message["type"] for message in seen] == ["http.response.start", "http.response.body"]
    assert len(call.sent) == 1 + 8
    said = [chunk["choices"][0]["delta"]["content"] for chunk in chunks(call.body)]
    assert said == ["", *"abcdefgh"]
