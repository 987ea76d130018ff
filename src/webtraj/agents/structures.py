"""The grammar of actions, for servers that let a model write nothing else.

Whatever matches the structure of a dialect is read by that dialect as an action; the tests draw
replies from the structures to show it. The reverse does not hold: a structure leaves out what few
models need (uploads, paths of many points, held keys beside a click), and elements are those of the
page at hand. Texts are bounded by the server's `max_tokens` alone.

* `webtraj`, `browsergym`: a regular expression of one call, after a line for each other section
  that the prompt asks for.
* `webgym`, `webgym_marks`: the JSON Schema of one tool call; a reply has no other sections then.

Regular expressions use no more than classes, groups, alternatives and counts.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.agents.models.base import Structure
from webtraj.environments.actions.dialects import Dialect

__all__ = ["STRUCTURED", "action_structure", "require"]

STRUCTURED = ("webtraj", "browsergym", "webgym", "webgym_marks")
"""The dialects that have a structure."""

# Not in a text, which is one line: control characters, and all that Python takes for a line's end.
_BREAKS = r"\x00-\x1f\x7f\x85\u2028\u2029"
# Not in prose: what could be taken for an action, or for the markup of one.
_PROSE = f"[^{_BREAKS}`<>()\\[\\]{{}}]{{1,400}}"
_BARE_TEXT = f"(?:[^{_BREAKS}'\\\\]|\\\\['\\\\])*"
_TEXT_AFTER_PROSE = f"(?:[^{_BREAKS}'\\\\`<>]|\\\\['\\\\])*"
_URL = r"https?://[a-z0-9]+(?:[.-][a-z0-9]+)*(?:/[A-Za-z0-9/_.~%?&=+#-]*)?"
_KEY = (
    "(?:(?:Control|Shift|Alt|Meta)[+])?(?:Enter|Tab|Escape|Backspace|Delete|Home|End|PageUp"
    "|PageDown|ArrowUp|ArrowDown|ArrowLeft|ArrowRight|[a-z0-9])"
)
_ONE_KEY = (
    "(?:Shift|Control|Alt|Meta|Enter|Tab|Escape|Backspace|Delete|ArrowUp|ArrowDown|ArrowLeft"
    "|ArrowRight|[a-z0-9])"
)
_KEY_NAMES = ("key_comb", "keys", "key")
_SINGLE_KEY_WORDS = ("keyboard_down", "keyboard_up")
_REF = "[A-Za-z0-9]"
"""How the pattern of a ref begins in a schema, and no other pattern does."""


def action_structure(
    dialect: Dialect, *, refs: Sequence[str] = (), sections: Sequence[str] = ()
) -> Structure:
    """Returns the form of a reply that is one action.

    Args:
        dialect: How actions are said.
        refs: What elements can be named by: the page's refs, or the numbers of its marks. Without
            any, there are no actions on elements.
        sections: The labels of a reply's parts, in order, as the prompt has them.

    Raises:
        InvalidInputError: The dialect has no structure.
    """
    require(dialect.name)
    if dialect.name in ("webgym", "webgym_marks"):
        return Structure("json", _with_refs(dialect.schema(), refs))
    prose = "".join(f"{label}: {_PROSE}\n" for label in sections if label != "Action")
    label = "Action: " if prose else ""
    text = _TEXT_AFTER_PROSE if prose else _BARE_TEXT
    options = [call for tool in dialect.tools() for call in _call(tool, refs, text)]
    return Structure("regex", f"{prose}{label}(?:{'|'.join(options)})")


def require(dialect: str) -> None:
    """Sees to it that a dialect, by name, has a structure.

    Raises:
        InvalidInputError: It has none.
    """
    if dialect not in STRUCTURED:
        raise errors.InvalidInputError(
            f"There is no structure for the dialect {dialect!r}, only for "
            f"{', '.join(STRUCTURED)}; leave enforce_actions off."
        )


def _call(tool: Mapping[str, Any], refs: Sequence[str], text: str) -> Iterator[str]:
    """Yields the expression of a word's call; nothing if it cannot be said."""
    word, parameters = tool["name"], tool["parameters"]
    required, optional = [], []
    for name, schema in parameters["properties"].items():
        if name in parameters["required"]:
            pattern = _argument(word, name, schema, refs, text)
            if pattern is None:
                return
            required.append(pattern)
        elif "enum" in schema and schema["type"] == "string":
            optional.append(f"{name}={_choice(schema['enum'])}")
    arguments = ", ".join(required)
    for extra in optional:
        arguments += f"(?:{', ' if required else ''}{extra})?"
    yield f"{word}\\({arguments}\\)"


def _argument(
    word: str, name: str, schema: Mapping[str, Any], refs: Sequence[str], text: str
) -> str | None:
    kind = schema["type"]
    if kind == "string":
        if name in _KEY_NAMES:
            return f"'{_ONE_KEY if word in _SINGLE_KEY_WORDS else _KEY}'"
        return _string(schema, refs, text)
    if kind in ("number", "integer"):
        return _number(schema)
    if kind == "boolean":
        return "(?:True|False)"
    if kind == "array" and name == "options":
        item = _string(schema["items"], refs, text)
        return f"\\[{item}(?:, {item}){{0,9}}\\]"
    return None


def _string(schema: Mapping[str, Any], refs: Sequence[str], text: str) -> str | None:
    if "enum" in schema:
        return _choice(schema["enum"])
    if schema.get("format") == "uri":
        return f"'{_URL}'"
    if str(schema.get("pattern", "")).startswith(f"^{_REF}"):
        return _choice(refs) if refs else None
    return f"'{text}'"


def _choice(values: Sequence[str]) -> str:
    return f"'(?:{'|'.join(map(re.escape, values))})'"


def _number(schema: Mapping[str, Any]) -> str:
    high = schema.get("maximum", 10_000)
    if high < 10:
        return f"[{schema.get('minimum', 0)}-{high}]"
    # One digit less than the bound has, and four at most: no screen is wider.
    digits = min(len(str(int(high))) - 1, 4)
    sign = "-?" if schema.get("minimum", 0) < 0 else ""
    return f"{sign}(?:0|[1-9][0-9]{{0,{digits - 1}}})"


def _with_refs(schema: Mapping[str, Any], refs: Sequence[str]) -> dict[str, Any]:
    """Returns a tool call's schema in which elements are those of the page."""
    bound = copy.deepcopy(dict(schema))
    arguments = bound["properties"]["arguments"]
    options = []
    for option in arguments["oneOf"]:
        properties = option["properties"]
        named = [name for name, held in properties.items() if _is_ref(held)]
        if named and not refs:
            continue
        for name in named:
            properties[name] = {"type": "string", "enum": list(refs)}
        if "url" in properties:
            properties["url"] = {"type": "string", "pattern": f"^{_URL}$"}
        options.append(option)
    # Its alternatives are told apart by their action; servers know anyOf better.
    bound["properties"]["arguments"] = {"anyOf": options}
    bound["additionalProperties"] = False
    return bound


def _is_ref(schema: Mapping[str, Any]) -> bool:
    return str(schema.get("pattern", "")).startswith(f"^{_REF}")
