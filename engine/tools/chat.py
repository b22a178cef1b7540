"""`engine chat`: a conversation in the terminal with a server, ours or any other that speaks OpenAI's API."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any  # JSON of a foreign server has no type of ours.

import httpx
from msgspec import Struct

from engine.base.environ import api_key
from engine.base.errors import ConfigError
from engine.tools.private_server import private_server

DEFAULT_URL = "http://127.0.0.1:8000"
CONNECT_S = 2.0
HELP = """/new     forget the conversation so far
/system TEXT   set the system prompt and start anew
/help    this list
/exit    leave (also Ctrl-D); Ctrl-C stops an answer"""


class ChatOptions(Struct, frozen=True, kw_only=True):
    """url None: a server on the default address, or else a private one for model_path."""

    url: str | None = None
    model_path: str | None = None
    api_key: str | None = None
    served_name: str | None = None
    system: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None


def chat(options: ChatOptions) -> int:
    """Talks until the user leaves. Raises ConfigError when no server can be reached or started."""
    if options.url is not None:
        return converse(options, options.url)
    if options.model_path is None and is_up(DEFAULT_URL):
        return converse(options, DEFAULT_URL)
    with private_server(options.model_path) as url:
        return converse(options, url)


def is_up(url: str) -> bool:
    try:
        return httpx.get(url + "/health", timeout=CONNECT_S).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def converse(options: ChatOptions, url: str) -> int:
    conversation = Conversation(options, url)
    print(f"Talking to {conversation.model} at {url}. /help lists the commands.")
    while (line := read_line()) is not None:
        match line.split(maxsplit=1):
            case []:
                continue
            case ["/exit" | "/quit"]:
                break
            case ["/help"]:
                print(HELP)
            case ["/new"]:
                conversation.restart(conversation.system)
            case ["/system", text]:
                conversation.restart(text)
            case _:
                conversation.say(line)
    return 0


def read_line() -> str | None:
    """None at the end of input. The prompt is for people only: piped input gets none."""
    try:
        return input("> " if sys.stdin.isatty() else "")
    except EOFError:
        return None


class Conversation:
    """The messages so far, and the server that continues them."""

    def __init__(self, options: ChatOptions, url: str) -> None:
        key = options.api_key or api_key()
        self.client = httpx.Client(
            base_url=url.rstrip("/").removesuffix("/v1"),
            headers={"authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(None, connect=CONNECT_S),
        )
        self.model = options.served_name or self.first_model()
        self.settings = {
            name: value
            for name, value in {"temperature": options.temperature, "max_tokens": options.max_tokens}.items()
            if value is not None
        }
        self.restart(options.system)

    def restart(self, system: str | None) -> None:
        self.system = system
        self.messages = [{"role": "system", "content": system}] if system else []

    def first_model(self) -> str:
        try:
            answer = self.client.get("/v1/models")
        except httpx.HTTPError as error:
            raise ConfigError(f"no server at {self.client.base_url}: {error}; start one with `engine serve`") from error
        if answer.status_code != httpx.codes.OK:
            raise ConfigError(f"{self.client.base_url}: {error_text(answer)}")
        return str(answer.json()["data"][0]["id"])

    def say(self, text: str) -> None:
        """Prints the answer as it comes. A refused or broken answer leaves the conversation as it was."""
        self.messages.append({"role": "user", "content": text})
        pieces: list[str] = []
        try:
            for piece in self.answer():
                pieces.append(piece)
                print(piece, end="", flush=True)
        except KeyboardInterrupt:
            print(" [stopped]", end="")
        except (httpx.HTTPError, ConfigError) as error:
            self.messages.pop()
            print(f"engine: {error}", file=sys.stderr)
            return
        print()
        self.messages.append({"role": "assistant", "content": "".join(pieces)})

    def answer(self) -> Iterator[str]:
        body = {"model": self.model, "messages": self.messages, "stream": True, **self.settings}
        with self.client.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != httpx.codes.OK:
                response.read()
                raise ConfigError(error_text(response))
            for event in events(response.iter_bytes()):
                if "error" in event:
                    raise ConfigError(event["error"]["message"])
                for choice in event["choices"]:
                    yield choice["delta"].get("content") or ""


def events(pieces: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON of each server-sent event up to [DONE]. Splits at CR and LF only, never at other line separators.

    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
    """
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if line == b"data: [DONE]":
                return
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


def error_text(answer: httpx.Response) -> str:
    """OpenAI's message where the body has one."""
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the server answered {answer.status_code}"
