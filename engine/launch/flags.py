"""Flags, environment twins and a file become one EngineConfig. Every flag is made from the field it sets.

A flag wins over its ENGINE_ARG_ variable, that over the file, that over the field's default.
"""

from __future__ import annotations

import argparse
import difflib
import types
import typing
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.base.config import SECTIONS, EngineConfig, check
from engine.base.environ import flag_default, flags_given
from engine.base.errors import ConfigError
from engine.base.sizes import parse_size

# Spellings that users of other engines bring along.
ALIASES = {
    "model": ("--model-path",),
    "max_model_len": ("--context-length",),
    "tensor_parallel_size": ("-tp", "--tp-size"),
    "max_num_batched_tokens": ("--chunked-prefill-size",),
    "max_num_seqs": ("--max-running-requests",),
    "max_num_queued_reqs": ("--max-queued-requests",),
}


class Flag(NamedTuple):
    """One field of a section, seen from the command line."""

    section: str
    field: str
    type: object
    help: str
    default: object

    @property
    def name(self) -> str:
        return "--" + self.field.replace("_", "-")


def all_flags(sections: tuple[str, ...] = tuple(SECTIONS)) -> list[Flag]:
    return [flag for section in sections for flag in section_flags(section)]


def section_flags(section: str) -> list[Flag]:
    struct = SECTIONS[section]
    hints = typing.get_type_hints(struct, include_extras=True)
    return [
        Flag(section, field.name, hints[field.name], description(hints[field.name]), field.default)
        for field in msgspec.structs.fields(struct)
    ]


def description(hint: object) -> str:
    """The text of the field's own Meta; every field has one (a test says so)."""
    metas = [meta for meta in typing.get_args(hint)[1:] if isinstance(meta, msgspec.Meta)]
    return next((meta.description for meta in metas if meta.description), "")


class Parser(argparse.ArgumentParser):
    """argparse that suggests the flag you meant, in one line."""

    def error(self, message: str) -> typing.NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ").split()[0].split("=")[0]
        parsers = [self, *(each for action in self._actions if isinstance(action.choices, dict)
                           for each in action.choices.values())]  # fmt: skip
        known = [option for each in parsers for action in each._actions for option in action.option_strings]
        near = difflib.get_close_matches(unknown, known, n=1)
        hint = f"; did you mean {near[0]}?" if near and unknown != message else ""
        self.exit(2, f"{self.prog}: {message}{hint}\n")


def add_flags(parser: argparse.ArgumentParser, flags: list[Flag]) -> None:
    """One argument group a section; values stay text until resolve() converts all of them in one place."""
    titles = {section: struct.__doc__ or section for section, struct in SECTIONS.items()}
    groups = {flag.section: parser.add_argument_group(titles[flag.section]) for flag in flags}
    for flag in flags:
        names = (flag.name, *ALIASES.get(flag.field, ()))
        text = f"{flag.help} (default: {shown(flag.default)})".replace("%", "%%")
        group = groups[flag.section]
        if is_boolean(flag):
            group.add_argument(
                *names, dest=flag.field, help=text, default=argparse.SUPPRESS, action=argparse.BooleanOptionalAction
            )
        elif is_many(flag):
            group.add_argument(
                *names, dest=flag.field, help=text, default=argparse.SUPPRESS, action="append",
                metavar=metavar(flag),
            )  # fmt: skip
        else:
            group.add_argument(*names, dest=flag.field, help=text, default=argparse.SUPPRESS, metavar=metavar(flag))


def shown(default: object) -> str:
    if default is None or default == ():
        return "none"
    return str(default).lower() if isinstance(default, bool) else str(default)


def plain(hint: object) -> object:
    """The type without Annotated and without `| None`."""
    if typing.get_origin(hint) is typing.Annotated:
        return plain(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return plain(next(part for part in typing.get_args(hint) if part is not type(None)))
    return hint


def is_boolean(flag: Flag) -> bool:
    return plain(flag.type) is bool


def is_many(flag: Flag) -> bool:
    return typing.get_origin(plain(flag.type)) is tuple


def metavar(flag: Flag) -> str:
    kind = plain(flag.type)
    if typing.get_origin(kind) is typing.Literal:
        return "{" + ",".join(str(choice) for choice in typing.get_args(kind)) + "}"
    return {int: "N", float: "SECONDS"}.get(typing.cast(type, kind), "TEXT")  # Looked up by the class itself.


def resolve(given: dict[str, object], flags: list[Flag], file: str | None = None) -> EngineConfig:
    """One checked configuration. Raises ConfigError that names the flag, variable or key that is wrong."""
    check_variables()
    values: dict[str, dict[str, object]] = {section: {} for section in SECTIONS}
    from_file = read_file(file, flags) if file else {}
    for flag in flags:
        if flag.field in given:
            source, value = flag.name, given[flag.field]
        elif (text := flag_default(flag.field)) is not None:
            source, value = "ENGINE_ARG_" + flag.field.upper(), text.split() if is_many(flag) else text
        elif flag.field in from_file:
            source, value = f"{flag.field} in {file}", from_file[flag.field]
        else:
            continue
        values[flag.section][flag.field] = convert(flag, source, value)
    return check(EngineConfig(**{name: SECTIONS[name](**fields) for name, fields in values.items()}))  # type: ignore[arg-type]  # Fields were converted to the sections' own types one by one.


def check_variables() -> None:
    """A misspelt variable is refused as a misspelt flag is; those of another command's flags are fine."""
    known = [flag.field for flag in all_flags()]
    for field in flags_given():
        if field not in known:
            near = difflib.get_close_matches(field, known, n=1)
            hint = f"; did you mean ENGINE_ARG_{near[0].upper()}?" if near else ""
            raise ConfigError(f"ENGINE_ARG_{field.upper()} sets no flag{hint}")


def convert(flag: Flag, source: str, value: object) -> object:
    try:
        if plain(flag.type) is int and isinstance(value, str):
            value = parse_size(value) if not value.lstrip("-").isdigit() else int(value)
        return msgspec.convert(value, type=flag.type, strict=False)
    except (ValueError, msgspec.ValidationError) as error:
        choices = f"; use one of {metavar(flag)}" if metavar(flag).startswith("{") else ""
        raise ConfigError(f"{source}: {error}{choices}. It means: {flag.help}") from error


def read_file(path: str, flags: list[Flag]) -> dict[str, object]:
    """A YAML mapping of flag names (with dashes or underscores) to values."""
    import yaml

    try:
        loaded = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"--config {path}: {error}") from error
    if not isinstance(loaded, dict):
        raise ConfigError(f"--config {path}: expected lines such as `max-num-seqs: 32`")
    known = {flag.field for flag in flags}
    values = {str(key).replace("-", "_"): value for key, value in loaded.items()}
    for key in values.keys() - known:
        near = difflib.get_close_matches(key, known, n=1)
        raise ConfigError(f"--config {path}: no such setting {key!r}" + (f"; did you mean {near[0]}?" if near else ""))
    return values
