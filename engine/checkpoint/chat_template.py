"""The chat templates that a model file carries, by name. Renders none."""

from __future__ import annotations

from pathlib import Path

from engine.checkpoint.fields import Fields
from engine.checkpoint.json_file import read_text


def templates_in(fields: Fields, key: str, default: str) -> dict[str, str]:
    """GGUF: `key` itself under the name `default`, and `key`.NAME under NAME."""
    templates = {name.removeprefix(key + "."): fields.text(name) for name in fields.table if name.startswith(key + ".")}
    if fields.has(key):
        templates[default] = fields.text(key)
    return templates


def templates_of_folder(folder: Path, fields: Fields, default: str) -> dict[str, str]:
    """chat_template.jinja wins over tokenizer_config.json, whose chat_template is a text or a list by name."""
    templates = listed(fields, default)
    own = folder / "chat_template.jinja"
    if own.exists():
        templates[default] = read_text(own)
    for path in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        templates[path.stem] = read_text(path)
    return templates


def listed(fields: Fields, default: str) -> dict[str, str]:
    found = fields.table.get("chat_template")
    if not isinstance(found, list):
        return {default: fields.text("chat_template")} if found is not None else {}
    templates = {}
    for entry in found:
        if not isinstance(entry, dict):
            raise fields.fault("chat_template is a list with an entry that is not an object")
        one = Fields(f"{fields.source}: chat_template", entry)
        templates[one.text("name")] = one.text("template")
    return templates
