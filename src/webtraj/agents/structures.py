"""The grammar of actions, for servers that restrict a model's output to it.

Every reply that matches a dialect's structure is a valid action in that dialect; the tests check
this with replies drawn from the structures. The reverse does not hold: a structure leaves out what
few models need (uploads, paths of many points, keys held while clicking), and allows only the
elements of the current page. The length of texts is limited only by the server's `max_tokens`.

* `webtraj`, `browsergym`: a regular expression for one call, after a line for each other section
  that the prompt asks for.
* `webgym`, `webgym_marks`: the JSON Schema of one tool call; a reply then has no other sections.

The regular expressions use only classes, groups, alternatives and counts.
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

# Not allowed in a text, which is one line: control characters, and Python's line ends.
_BREAKS = r"\x00-\x1f\x7f\x85\u2028\u2029"
# Not allowed in prose: anything that could be taken for an action or its markup.
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
"""The start of a ref's pattern in a schema, and of no other pattern."""


def action_structure(
    dialect: Dialect, *, refs: Sequence[str] = (), sections: Sequence[str] = ()
) -> Structure:
    """Return the structure of a reply with one action.

    Args:
        dialect: The dialect of the action.
        refs: The names of elements: the page's refs, or its mark numbers. If empty, there are no
            actions on elements.
        sections: The labels of a reply's sections, in the prompt's order.

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
    """Check that a dialect has a structure.

    Raises:
        InvalidInputError: It has none.
    """
    if dialect not in STRUCTURED:
        raise errors.InvalidInputError(
            f"The dialect {dialect!r} has no structure; only {', '.join(STRUCTURED)} have one. "
            "Leave enforce_actions off, or choose another dialect."
        )


def _call(tool: Mapping[str, Any], refs: Sequence[str], text: str) -> Iterator[str]:
    """Yield the expression of a tool's call; nothing if it cannot be written."""
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
    # One digit less than the limit has, and four at most: no screen is wider.
    digits = min(len(str(int(high))) - 1, 4)
    sign = "-?" if schema.get("minimum", 0) < 0 else ""
    return f"{sign}(?:0|[1-9][0-9]{{0,{digits - 1}}})"


def _with_refs(schema: Mapping[str, Any], refs: Sequence[str]) -> dict[str, Any]:
    """Return a tool call's schema that allows only the page's elements."""
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
    # The action already tells the alternatives apart; servers support anyOf better than oneOf.
    bound["properties"]["arguments"] = {"anyOf": options}
    bound["additionalProperties"] = False
    return bound


def _is_ref(schema: Mapping[str, Any]) -> bool:
    return str(schema.get("pattern", "")).startswith(f"^{_REF}")
