"""The OpenAI-compatible HTTP server: chat, completions, models, tokenizing, health and metrics."""

from engine.frontends.openai.app import create_app
from engine.frontends.openai.server import serve_app

__all__ = ["create_app", "serve_app"]
