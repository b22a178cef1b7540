"""Jinja for chat templates: what Hugging Face's renderer offers, in a sandbox that also bounds loops and output.

Templates come with models from anywhere: they see plain data, change nothing, and end. Not bounded is the memory of
a text that doubles itself with `~`: a model file that wants to do harm can still do that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, TemplateRuntimeError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.base.clock import Clock

MAX_TURNS = 500_000
"""Turns of all loops in one rendering: about a second, and far more than a long conversation takes."""
TURNS_OF_A_CALL = 10
"""What a call of a macro counts for, by the time it takes."""
MAX_REPEATED = 1_000_000
"""Longest text or list that `*` may make."""
MAX_BITS = 10_000
"""Largest number that `**` may make."""
TURNS = "enginewright_turns"  # the variable that holds a rendering's Turns


class TemplateRefused(TemplateError):
    """The template called raise_exception: the message is for the client."""


class Turns:
    """Counts what can repeat in one rendering: turns of loops, and calls of macros."""

    def __init__(self) -> None:
        self.left = MAX_TURNS

    def take(self, turns: int) -> None:
        self.left -= turns
        if self.left < 0:
            raise TemplateRuntimeError(f"its loops turn more than {MAX_TURNS} times")

    def counted(self, items: Iterable[object]) -> Iterator[object]:
        for item in items:
            self.take(1)
            yield item


class CountedTurns(Extension):
    """What every loop runs over is counted, and every call of a macro, in a place that the template cannot reach."""

    def insert(self, tree: nodes.Template) -> None:
        for loop in tree.find_all(nodes.For):
            assert isinstance(loop.iter, nodes.Expr)
            loop.iter = self.call_method("count", [nodes.ContextReference(), loop.iter])
            if loop.recursive:
                loop.body.insert(0, self.turn(loop.lineno))  # `loop(items)` enters it with items of its own
        for macro in (*tree.find_all(nodes.Macro), *tree.find_all(nodes.CallBlock)):
            assert isinstance(macro, nodes.Macro | nodes.CallBlock)
            macro.body.insert(0, self.turn(macro.lineno))

    def turn(self, line: int) -> nodes.Node:
        return nodes.ExprStmt(self.call_method("take", [nodes.ContextReference()])).set_lineno(line)

    def count(self, context: Context, items: Iterable[object]) -> Iterator[object]:
        return turns_of(context).counted(items)

    def take(self, context: Context) -> None:
        turns_of(context).take(TURNS_OF_A_CALL)


def turns_of(context: Context) -> Turns:
    """What the template sets lies in context.vars, before the parent."""
    turns = context.parent[TURNS]
    assert isinstance(turns, Turns)
    return turns


class Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks an assistant's own words for training; here it only shows them."""

    tags = {"generation"}  # noqa: RUF012  # the name and the type are Jinja's

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """Variables besides the messages: raise_exception, strftime_now; filters: tojson, which escapes no HTML."""

    intercepted_binops = frozenset(["*", "**"])

    def __init__(self, clock: Clock) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, CountedTurns, loopcontrols])
        self.filters["tojson"] = to_json
        self.globals["raise_exception"] = refuse
        self.globals["strftime_now"] = strftime(clock)

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        """Jinja's hook between the syntax tree and the code."""
        counted = self.extensions[CountedTurns.identifier]
        assert isinstance(counted, CountedTurns)
        counted.insert(source)
        return super()._generate(source, name, filename, defer_init)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # Any: as Jinja declares them
        if operator == "**" and isinstance(left, int) and left.bit_length() * right > MAX_BITS:
            raise TemplateRuntimeError("it raises a number to too high a power")
        if operator == "*" and max(extent(left, right), extent(right, left)) > MAX_REPEATED:
            raise TemplateRuntimeError("it repeats a text too often")
        return super().call_binop(context, operator, left, right)


def extent(sequence: Any, times: Any) -> int:
    """Length of a sequence repeated so often; 0 where the two are no such pair."""
    return len(sequence) * times if isinstance(sequence, str | list | tuple) and isinstance(times, int) else 0


def refuse(message: str) -> None:
    raise TemplateRefused(message)


def to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime(clock: Clock) -> Callable[[str], str]:
    """Local time, as templates expect it."""
    return lambda form: datetime.fromtimestamp(clock.wall()).strftime(form)
