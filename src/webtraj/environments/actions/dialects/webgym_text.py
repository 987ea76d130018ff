"""WebGym's earlier grammar: lines such as `Click [12]` or `Type [500, 250] [hello]`.

Elements go by label, points by coordinates from 0 to 1000, x before y. The action is the last
non-empty line, after a label such as `Action:` at most; two lines with actions are too many.
"""

from __future__ import annotations

import re
from typing import Any

from webtraj.environments.actions import conversation, element, keyboard, navigation, pointer
from webtraj.environments.actions.base import Action
from webtraj.environments.actions.dialects import replies
from webtraj.environments.actions.dialects.arguments import value
from webtraj.environments.actions.dialects.base import Unreadable, Unsayable, invalid
from webtraj.environments.actions.dialects.frames import Frame
from webtraj.environments.actions.dialects.phrases import Phrase, PhrasebookDialect
from webtraj.environments.actions.dialects.webgym import (
    GRID,
    SCROLL_MEANING,
    TYPE_MEANING,
    page_scroll,
)

__all__ = ["WebGymTextDialect"]

_MARKUP = ("]", "```", "<think>", "</think>", "<action>", "</action>")
_TYPE = {"clear": True, "submit": True}
_WINDOW = "WINDOW"

_SPELLINGS = {
    "click": "Click",
    "hover": "Hover",
    "hoverandscroll": "HoverAndScroll",
    "type": "Type",
    "scroll": "Scroll",
    "wait": "Wait",
    "goback": "GoBack",
    "tabandenter": "TabAndEnter",
    "answer": "ANSWER",
}
# How many brackets follow a word, at least and at most.
_BRACKETS = {
    "Click": (1, 1),
    "Hover": (1, 1),
    "HoverAndScroll": (2, 2),
    "Type": (2, 2),
    "Scroll": (1, 2),
    "Wait": (0, 0),
    "GoBack": (0, 0),
    "TabAndEnter": (0, 0),
    "ANSWER": (1, 1),
}

_WORD = r"Click|HoverAndScroll|Hover|Type|Scroll|Wait|Go ?Back|Tab ?And ?Enter|ANSWER"
_LABEL = r"\s*(?:[-*]\s+)?(?:\*\*)?(?:(?:next |my |the )?action(?:\*\*)?:(?:\*\*)?)?\s*"
_LINE = re.compile(rf"{_LABEL}`*({_WORD})(?![\w'])[ ]*(\[.*\])?[`.\s]*", re.IGNORECASE)
_POINT = re.compile(r"\s*(-?\d{1,9}(?:\.\d{1,9})?)\s*,\s*(-?\d{1,9}(?:\.\d{1,9})?)\s*")


def _line(held: str) -> str:
    # WebGym's own parser ends a text at the first closing bracket.
    if len(held.splitlines()) > 1 or held != held.strip() or any(m in held for m in _MARKUP):
        raise Unsayable("text with brackets, markup, a line break, or spaces around it")
    return held


class WebGymTextDialect(PhrasebookDialect):
    """Words with arguments in brackets. See the module."""

    def __init__(self, viewport: tuple[int, int] = (1280, 720)) -> None:
        """Makes the dialect for a viewport (width, height) in CSS pixels."""
        width, height = viewport
        frame = Frame(width, height, GRID, GRID)
        point, mark = frame.pair("coordinate"), value("element_id", "ref")
        text, direction = value("text", write=_line), page_scroll(height)
        super().__init__(
            "webgym_text",
            (
                Phrase("Click", pointer.ClickAt, (point,)),
                Phrase("Click", element.Click, (mark,)),
                Phrase("Hover", pointer.MoveMouse, (point,)),
                Phrase("Hover", element.Hover, (mark,)),
                Phrase(
                    "HoverAndScroll",
                    pointer.ScrollAt,
                    (point, direction),
                    meaning="Scroll what is at a point up or down by one screen.",
                ),
                Phrase("Type", pointer.TypeAt, (point, text), fields=_TYPE, meaning=TYPE_MEANING),
                Phrase("Type", element.TypeInto, (mark, text), fields=_TYPE, meaning=TYPE_MEANING),
                Phrase("Scroll", pointer.ScrollAt, (point, direction), spoken=False),
                Phrase("Scroll", pointer.Scroll, (direction,), meaning=SCROLL_MEANING),
                Phrase(
                    "Scroll",
                    pointer.Scroll,
                    (mark, direction),
                    meaning="Scroll an element up or down by one screen.",
                ),
                Phrase(
                    "Wait",
                    conversation.Wait,
                    fields={"seconds": 2.0},
                    meaning="Wait for 2 seconds.",
                ),
                Phrase("GoBack", navigation.GoBack),
                Phrase(
                    "TabAndEnter",
                    keyboard.PressKey,
                    fields={"keys": "Tab Enter"},
                    meaning="Press Tab, then Enter.",
                ),
                Phrase("ANSWER", conversation.Answer, (text,)),
            ),
        )

    def parse(self, reply: Any) -> Action:
        """See `Dialect.parse`. Takes text."""
        try:
            if not isinstance(reply, str):
                raise Unreadable("malformed", f"A reply is text; got a {type(reply).__name__}.")
            word, brackets = self._line_in(replies.spoken_part(reply))
            return self._book.read(word, self._arguments(word, brackets))
        except Unreadable as problem:
            return invalid(problem.kind, problem.reason, reply)

    def format(self, action: Action) -> str:
        """See `Dialect.format`."""
        word, args = self._book.write(action)
        brackets = [
            ", ".join(map(str, arg)) if isinstance(arg, list) else str(arg) for arg in args.values()
        ]
        if word == "Scroll" and "element_id" not in args:
            brackets.insert(0, _WINDOW)
        return " ".join([word, *(f"[{bracket}]" for bracket in brackets)])

    def schema(self) -> dict[str, Any]:
        """See `Dialect.schema`. An action's structured form is its word with its arguments."""
        return self._book.schema("action")

    def tools(self) -> list[dict[str, Any]]:
        """See `Dialect.tools`: none."""
        return []

    def prompt(self) -> str:
        """See `Dialect.prompt`."""
        lines = ["These actions are available:", ""]
        for phrase in filter(lambda phrase: phrase.spoken, self._book.phrases):
            brackets = {
                "coordinate": "[x, y]",
                "element_id": "[label]",
                "text": "[text]",
                "direction": "[up|down]",
            }
            names = [brackets[name] for name in phrase.names]
            if phrase.word == "Scroll" and len(names) == 1:
                names.insert(0, f"[{_WINDOW}]")
            lines.append(f"{' '.join([phrase.word, *names])}: {phrase.summary}")
        lines += [
            "",
            f"Coordinates run from 0 to {GRID}. End with one action on a line of its own.",
        ]
        return "\n".join(lines)

    def _line_in(self, text: str) -> tuple[str, str]:
        if marked := replies.tagged(text, "action") or replies.fenced(text):
            text = replies.only(marked)
        lines = [line for line in text.splitlines() if line.strip()]
        found = [match for line in lines if (match := _LINE.fullmatch(line))]
        if len(found) > 1:
            raise Unreadable(
                "several_actions",
                f"The reply holds {len(found)} actions; exactly one was expected.",
            )
        if not found:
            last = lines[-1].strip() if lines else ""
            if re.match(rf"(?:{_LABEL})(?:{_WORD})\s*\[", last, re.IGNORECASE):
                raise Unreadable("malformed", "The action breaks off or is malformed.")
            raise Unreadable("no_action", "The reply holds no line with an action.")
        word = re.sub(r"\s", "", found[0][1]).lower()
        return _SPELLINGS[word], found[0][2] or ""

    def _arguments(self, word: str, brackets: str) -> dict[str, Any]:
        least, most = _BRACKETS[word]
        parts: list[str] = []
        if brackets:
            # The last bracket takes all the rest, so that a text may hold brackets.
            inner = brackets[1:-1]
            parts = re.split(r"\]\s*\[", inner, maxsplit=most - 1) if most > 1 else [inner]
        if not least <= len(parts) <= most:
            raise Unreadable(
                "bad_arguments", f"{word} takes {most} arguments in brackets; got {len(parts)}."
            )
        if most == 0:
            return {}
        if word == "ANSWER":
            return {"text": parts[0].strip()}
        if word == "Scroll" and len(parts) == 1:
            return {"direction": parts[0].strip().lower()}
        args = _target(parts[0])
        if word == "Type":
            args["text"] = parts[1].strip()
        elif len(parts) > 1:
            args["direction"] = parts[1].strip().lower()
        return args


def _target(text: str) -> dict[str, Any]:
    if match := _POINT.fullmatch(text):
        numbers = [float(number) for number in match.groups()]
        return {"coordinate": [int(n) if n.is_integer() else n for n in numbers]}
    if text.strip().upper() == _WINDOW:
        return {}
    return {"element_id": text.strip()}
