"""WebGym's dialects: `<tool_call>` JSON with coordinates from 0 to 1000, or with element ids.

`{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 250]}}`

WebGym's words keep their meaning: `type` clicks, clears, types and presses Enter; `scroll` moves by
one viewport; a URL without a scheme gets `https://`; `wait` without a time is 2 seconds. Its
parser's guesses are dropped: a missing coordinate is not a click in the middle, an unknown action
is not a wait.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from webtraj.environments.actions import verbs
from webtraj.environments.actions.base import Action
from webtraj.environments.actions.dialects import replies
from webtraj.environments.actions.dialects.phrases import (
    Argument,
    FormatError,
    ParseError,
    Phrase,
    PhrasebookDialect,
    group,
    invalid,
    show_value,
    tool_call_prompt,
    value,
)
from webtraj.environments.actions.dialects.replies import Frame

__all__ = ["WebGymDialect", "WebGymMarksDialect", "page_scroll", "with_scheme"]

GRID = 1000
"""WebGym's coordinates run from 0 to this, for any viewport."""

_TYPE = {"clear": True, "submit": True}
TYPE_MEANING = "Replace the text of a field, key by key, and press Enter."
SCROLL_MEANING = "Scroll the page up or down by one screen."
_MARKUP = ("<think>", "</think>", "<tool_call>", "</tool_call>")
_HOST = re.compile(r"(localhost|[\w-]+(\.[\w-]+)+)(:\d+)?([/?#].*)?")


def with_scheme(url: Any) -> Any:
    """Prefix a URL with `https://` if it begins with a host name."""
    return f"https://{url}" if isinstance(url, str) and _HOST.fullmatch(url) else url


def page_scroll(height: int) -> Argument:
    """Return the argument `direction`, which scrolls by one viewport up or down."""

    def read(direction: Any) -> Mapping[str, Any]:
        if direction not in ("up", "down"):
            raise ValueError(f"direction must be 'up' or 'down'; got {str(direction)[:40]!r}")
        return {"dx": 0, "dy": height if direction == "down" else -height}

    def write(dx: float, dy: float) -> Mapping[str, Any]:
        if dx != 0 or abs(dy) != height:
            raise FormatError(f"({dx}, {dy}) but only (0, {height}) and (0, {-height})")
        return {"direction": "down" if dy > 0 else "up"}

    schema = {"type": "string", "enum": ["up", "down"]}
    return group({"direction": schema}, ("dx", "dy"), read=read, write=write)


def _shared_phrases(height: int) -> tuple[Phrase, ...]:
    # The default of 2 seconds is WebGym's, not the verb's, so it is accepted but always written.
    return (
        Phrase("scroll", verbs.Scroll, (page_scroll(height),), meaning=SCROLL_MEANING),
        Phrase("wait", verbs.Wait, (value("time", "seconds"),)),
        Phrase("wait", verbs.Wait, fields={"seconds": 2.0}, spoken=False),
        Phrase("go_back", verbs.GoBack),
        Phrase("navigate", verbs.Goto, (value("url", read=with_scheme),)),
        Phrase("answer", verbs.Answer, (value("text"),)),
    )


class _ToolCallDialect(PhrasebookDialect):
    """A dialect of `<tool_call>` JSON with one tool, whose argument `action` is the word."""

    def __init__(self, name: str, tool: str, description: str, phrases: tuple[Phrase, ...]) -> None:
        super().__init__(name, phrases)
        self._tool = tool
        self._description = description

    def parse(self, reply: Any) -> Action:
        """See `Dialect.parse`. Takes text, or a tool call's `{"name", "arguments"}`."""
        try:
            call = self._call_in(reply)
            name, arguments = call.get("name"), replies.arguments_of(call.get("arguments"))
            if name != self._tool:
                raise ParseError(
                    "unknown_action",
                    f"{show_value(name)} is not a tool; the tool is {self._tool!r}.",
                )
            if not isinstance(arguments, Mapping):
                raise ParseError("malformed", "The tool call's arguments are not an object.")
            args = replies.without_nulls(arguments)
            return self._book.read(args.pop("action", None), args)
        except ParseError as problem:
            return invalid(problem.kind, problem.reason, reply)

    def format(self, action: Action) -> str:
        """See `Dialect.format`."""
        word, args = self._book.write(action)
        call = {"name": self._tool, "arguments": {"action": word, **args}}
        text = json.dumps(call, ensure_ascii=False)
        if any(tag in text for tag in _MARKUP):
            # A text that quotes our tags must not be mistaken for them.
            text = text.replace("<", "\\u003c")
        return f"<tool_call>\n{text}\n</tool_call>"

    def schema(self) -> dict[str, Any]:
        """See `Dialect.schema`."""
        return {
            "type": "object",
            "properties": {
                "name": {"const": self._tool},
                "arguments": self._book.schema("action"),
            },
            "required": ["name", "arguments"],
        }

    def tools(self) -> list[dict[str, Any]]:
        """See `Dialect.tools`. There is one tool, with all arguments side by side, as in WebGym."""
        parameters = self._book.flat_schema("action")
        return [{"name": self._tool, "description": self._description, "parameters": parameters}]

    def prompt(self) -> str:
        """See `Dialect.prompt`."""
        return tool_call_prompt(self.tools()[0])

    def _call_in(self, reply: Any) -> Mapping[str, Any]:
        if isinstance(reply, Mapping):
            return reply
        if not isinstance(reply, str):
            raise ParseError("malformed", f"A reply is text; got a {type(reply).__name__}.")
        text = replies.strip_reasoning(reply)
        calls = replies.find_tagged(text, "tool_call") or replies.find_fenced(text)
        if not calls and not text.startswith("{"):
            raise ParseError("no_action", "The reply holds no <tool_call>; reply with exactly one.")
        return replies.json_object(replies.only(calls or [text]))


class WebGymDialect(_ToolCallDialect):
    """WebGym's coordinates mode. See the module."""

    def __init__(self, viewport: tuple[int, int] = (1280, 720)) -> None:
        """Make the dialect for a viewport (width, height) in CSS pixels."""
        width, height = viewport
        frame = Frame(width, height, GRID, GRID)
        point = frame.pair("coordinate", box=True)
        super().__init__(
            "webgym",
            "computer_use",
            f"Use a mouse and keyboard in a web browser. The screen's resolution is {GRID}x{GRID}.",
            (
                Phrase("left_click", verbs.ClickAt, (point,)),
                Phrase(
                    "type",
                    verbs.TypeAt,
                    (point, value("text")),
                    fields=_TYPE,
                    meaning=TYPE_MEANING,
                ),
                *_shared_phrases(height),
            ),
        )


class WebGymMarksDialect(_ToolCallDialect):
    """WebGym's set-of-marks mode: elements by the labels on the screenshot, which are refs."""

    def __init__(self, viewport: tuple[int, int] = (1280, 720)) -> None:
        """Make the dialect for a viewport (width, height) in CSS pixels."""
        mark = value("element_id", "ref", read=_label)
        super().__init__(
            "webgym_marks",
            "web_interaction",
            "Interact with web elements by their labels shown on the screenshot.",
            (
                Phrase("click", verbs.Click, (mark,)),
                Phrase(
                    "type",
                    verbs.TypeInto,
                    (mark, value("text")),
                    fields=_TYPE,
                    meaning=TYPE_MEANING,
                ),
                Phrase("hover", verbs.Hover, (mark,)),
                *_shared_phrases(viewport[1]),
            ),
        )


def _label(wire: Any) -> Any:
    # Labels are digits, which models also write as a JSON number.
    return str(wire) if type(wire) is int else wire
