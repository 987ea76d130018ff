"""Taking a reply's text apart: its reasoning, and the labelled sections that a prompt asks for.

A section begins with its label at the start of a line (`Memory: ...`, `**Memory:** ...`,
`2) Memory: ...`, `## Memory`) and ends where a later one begins, or the markup of the action.
Sections come in the prompt's order, each once. A label out of turn, as in a quoted page, is text;
which of two in turn is the real one, nobody can tell (`repeats`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

__all__ = ["reasoning_of", "repeats", "sections_of", "without_reasoning"]

_MARKUP = re.compile(r"<tool_call>|<action>")


def reasoning_of(reply: str) -> str:
    """Returns what a reply says inside `<think>...</think>`.

    The opening tag may be missing, since it is often part of the prompt; the closing one too, where
    the reply breaks off.

    >>> reasoning_of("<think>It is 12.</think>click('12')")
    'It is 12.'
    """
    before, closed, _ = reply.partition("</think>")
    if closed:
        return before.partition("<think>")[2].strip() if "<think>" in before else before.strip()
    return reply.lstrip().removeprefix("<think>").strip() if _is_thinking(reply) else ""


def without_reasoning(reply: str) -> str:
    """Returns a reply without its `<think>...</think>`; empty if it breaks off inside.

    >>> without_reasoning("<think>It is 12.</think>click('12')")
    "click('12')"
    """
    _, closed, after = reply.partition("</think>")
    if closed:
        return after.strip()
    return "" if _is_thinking(reply) else reply.strip()


def sections_of(text: str, labels: Sequence[str]) -> Mapping[str, str]:
    r"""Returns the sections of a text by label, those that it has.

    >>> sections_of("Thought: Two.\nOf four.\nAction: click('2')", ("Thought", "Action"))
    {'Thought': 'Two.\nOf four.', 'Action': "click('2')"}
    """
    found: dict[str, str] = {}
    open_label, begin, position = "", 0, 0
    for index, label in enumerate(labels):
        match = _label(label).search(text, position)
        if match is None:
            continue
        later = [_label(other).search(text, position) for other in labels[index + 1 :]]
        if any(other and other.start() < match.start() for other in later):
            continue  # It is out of turn: a later section is open already.
        if open_label:
            found[open_label] = _body(text[begin : match.start()])
        open_label, begin, position = label, match.end(), match.end()
    if open_label:
        found[open_label] = _body(text[begin:])
    return found


def repeats(text: str, label: str) -> bool:
    """Returns whether a label begins more than one line of a text."""
    return len(_label(label).findall(text)) > 1


def _label(label: str) -> re.Pattern[str]:
    return re.compile(
        rf"^[ \t]*(?:[-*][ \t]+|\d[.)][ \t]*|\#+[ \t]*)?(?:\*\*)?{re.escape(label)}"
        r"(?:\*\*:|:\*\*|:|\*\*[ \t]*$|(?<=\w)[ \t]*$)[ \t]*",
        re.IGNORECASE | re.MULTILINE,
    )


def _body(text: str) -> str:
    markup = _MARKUP.search(text)
    return text[: markup.start() if markup else None].strip()


def _is_thinking(text: str) -> bool:
    return text.lstrip().startswith("<think>")
