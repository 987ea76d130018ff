"""Tool calls that a server has taken out of a reply's text, in the raw response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["tool_calls_in"]


def tool_calls_in(response: Any) -> tuple[Mapping[str, Any], ...]:
    """Returns the tool calls of a raw response, as dialects read them.

    Known are chat completions (`choices[0].message.tool_calls`) and Anthropic's messages (blocks
    `tool_use`). Anything else has none.
    """
    calls: list[Mapping[str, Any]] = []
    for call in _list(_message(response).get("tool_calls")):
        function = _mapping(_mapping(call).get("function"))
        calls.append({"name": function.get("name"), "arguments": function.get("arguments")})
    blocks = _list(_mapping(response).get("content"))
    return (*calls, *(block for block in blocks if _mapping(block).get("type") == "tool_use"))


def _message(response: Any) -> Mapping[str, Any]:
    choices = _list(_mapping(response).get("choices"))
    return _mapping(_mapping(choices[0]).get("message")) if choices else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []
