"""The rules, one family a file, by code."""

from __future__ import annotations

from contracts.finding import Rule
from contracts.rules.imports import string_import
from contracts.rules.shape import long_function

RULES: dict[str, Rule] = {"EW711": string_import, "EW901": long_function}
