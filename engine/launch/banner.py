"""What the operator sees once the server is ready: the resolved configuration, what was chosen, how to ask."""

from __future__ import annotations

import sys

import msgspec

from engine.base.config import SECTIONS, EngineConfig
from engine.client.limits import ModelLimits
from engine.wire.output import Ready

RESOLVED = ("model", "served_model_name")
"""Filled in by the launcher where the user left them out; the first line shows them."""

EXAMPLE = """  curl {url}/v1/chat/completions -H 'content-type: application/json' -d \\
    '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "Hello!"}}]}}'"""


def show_banner(config: EngineConfig, ready: Ready, limits: ModelLimits, address: tuple[str, int]) -> None:
    """Prints to stderr; secrets are not shown."""
    print(banner(config, ready, limits, address), file=sys.stderr, flush=True)


def banner(config: EngineConfig, ready: Ready, limits: ModelLimits, address: tuple[str, int]) -> str:
    scheme = "https" if config.frontend.ssl_certfile else "http"
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    url = f"{scheme}://{host}:{address[1]}"
    cache = f"{ready.num_blocks} blocks of {ready.block_size} tokens"
    chosen = {"max_model_len": str(ready.max_model_len), "kv cache": cache, **ready.chosen}
    text_side = [] if limits.has_tokenizer else ["No tokenizer: token ids in, token ids out."]
    lines = [
        f"Serving {limits.model_name} ({config.model.model}) at {url}",
        *text_side,
        "Set by you: " + (", ".join(changed(config)) or "nothing, all defaults"),
        "Chosen here:",
        *(f"  {name}: {value}" for name, value in chosen.items()),
        "Ask it:",
        EXAMPLE.format(url=url, model=limits.model_name),
    ]
    return "\n".join(lines)


def changed(config: EngineConfig) -> list[str]:
    """`field=value` of every field that is not its default."""
    sections = {"model": config.model, "cache": config.cache, "scheduler": config.scheduler,
                "parallel": config.parallel, "frontend": config.frontend}  # fmt: skip
    assert sections.keys() == SECTIONS.keys()
    return [
        f"{field}={'***' if field == 'api_key' else value}"
        for section in sections.values()
        for field, value in msgspec.structs.asdict(section).items()
        if value != default_of(section, field) and field not in RESOLVED
    ]


def default_of(section: msgspec.Struct, field: str) -> object:
    return next(each.default for each in msgspec.structs.fields(section) if each.name == field)
