"""Prompt texts, written from the vocabulary and the docstrings of the verbs."""

from __future__ import annotations

import functools
import json
from typing import Any

from webtraj.environments.actions.base import VERBS, example_of
from webtraj.environments.actions.dialects.phrases import Phrasebook

__all__ = ["call_prompt", "input_prompt", "tool_call_prompt"]

_TYPES = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"}


def call_prompt(book: Phrasebook) -> str:
    """Returns the prompt of a dialect of calls: each word's signature, meaning and examples."""
    lines = [
        f"{len(book.words)} actions are available:",
        "",
    ]
    for word in book.words:
        lines.append(f"{word}({_signature(book.arguments(word))})")
        lines.append(f"    {book.summary(word)}")
        lines.extend(f"    Example: {example}" for example in _examples().get(word, ()))
    lines += [
        "",
        "Reply with exactly one of these calls, on a line of its own, with literal arguments.",
    ]
    return "\n".join(lines)


def tool_call_prompt(tool: dict[str, Any]) -> str:
    """Returns the prompt of a dialect of `<tool_call>` JSON, in the manner of Qwen's template."""
    return (
        "You have one tool:\n"
        f"<tools>\n{json.dumps(tool)}\n</tools>\n\n"
        "Reply with exactly one call of it, as JSON with its name and arguments:\n"
        "<tool_call>\n"
        f'{{"name": "{tool["name"]}", "arguments": {{"action": ...}}}}\n'
        "</tool_call>"
    )


def input_prompt(book: Phrasebook, word_key: str) -> str:
    """Returns the prompt of a dialect of JSON objects, for models without the tool built in."""
    schema = book.flat_schema(word_key)
    return f"Reply with exactly one JSON object, which follows this schema:\n{json.dumps(schema)}"


def _signature(schema: dict[str, Any]) -> str:
    parts = []
    for name, property_ in schema["properties"].items():
        default = "" if name in schema["required"] else " = ..."
        parts.append(f"{name}: {_type_name(property_)}{default}")
    return ", ".join(parts)


def _type_name(schema: dict[str, Any]) -> str:
    if schema["type"] == "array":
        return f"list[{_type_name(schema['items'])}]"
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    return _TYPES[schema["type"]]


@functools.cache
def _examples() -> dict[str, list[str]]:
    examples: dict[str, list[str]] = {}
    for verb in VERBS.values():
        if example := example_of(verb):
            examples.setdefault(example.partition("(")[0], []).append(example)
    return examples
