"""Parse a model's reply into a thought, a memory and exactly one action, or an invalid action.

The dialect finds and reads the action (`webtraj.environments.actions.dialects`): it never raises,
evaluates or guesses. This module adds the parts defined by the prompt: the sections of a reply, the
numbers of marks, and tool calls that a server took out of the text.

A reply that cannot be read becomes an `InvalidAction` that says why. It is never a click.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.models import replies as model_replies
from webtraj.agents.models.base import ToolCall
from webtraj.environments.actions.base import Action
from webtraj.environments.actions.dialects.phrases import Dialect, invalid
from webtraj.environments.actions.verbs import Answer, InvalidAction
from webtraj.trajectory import Ending, ending_of

__all__ = [
    "Reply",
    "parse_call",
    "parse_reply",
    "parse_tool_call",
    "reasoning_of",
    "repeats",
    "sections_of",
    "without_reasoning",
]

# Splitting a reply's text into its reasoning and the labelled sections that a prompt asks for.
#
# A section begins with its label at the start of a line (`Memory: ...`, `**Memory:** ...`,
# `2) Memory: ...`, `## Memory`) and ends at the next section or at the markup of the action.
# Sections come in the prompt's order, each once. A label out of order, as in a quoted page, is
# plain text. A repeated label is ambiguous (`repeats`).

_MARKUP = re.compile(r"<tool_call>|<action>")


def reasoning_of(reply: str) -> str:
    """Return the text inside a reply's `<think>...</think>`.

    The opening tag may be missing, since it is often part of the prompt. The closing tag is missing
    if the reply is cut off.

    >>> reasoning_of("<think>It is 12.</think>click('12')")
    'It is 12.'
    """
    before, closed, _ = reply.partition("</think>")
    if closed:
        return before.partition("<think>")[2].strip() if "<think>" in before else before.strip()
    return reply.lstrip().removeprefix("<think>").strip() if _is_thinking(reply) else ""


def without_reasoning(reply: str) -> str:
    """Return a reply without its `<think>...</think>`; empty if the reply ends inside it.

    >>> without_reasoning("<think>It is 12.</think>click('12')")
    "click('12')"
    """
    _, closed, after = reply.partition("</think>")
    if closed:
        return after.strip()
    return "" if _is_thinking(reply) else reply.strip()


def sections_of(text: str, labels: Sequence[str]) -> Mapping[str, str]:
    r"""Return the sections found in a text, by label.

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
            continue  # Out of order: a later section has begun already.
        if open_label:
            found[open_label] = _body(text[begin : match.start()])
        open_label, begin, position = label, match.end(), match.end()
    if open_label:
        found[open_label] = _body(text[begin:])
    return found


def repeats(text: str, label: str) -> bool:
    """Return whether more than one line of a text begins with a label."""
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


MEMORY = "Memory"
ACTION = "Action"

_BEFORE_ACTION = re.compile(r"<tool_call>|<action>|^[ \t]*```", re.MULTILINE)
_ACTION_LABEL = re.compile(
    r"^[ \t]*(?:[-*][ \t]+|\d[.)][ \t]*)?(?:\*\*)?action(?:\*\*)?:(?:\*\*)?[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_LABEL = re.compile(r"^[ \t]*(?:\*\*)?\w+(?:\*\*)?:(?:\*\*)?[ \t]*", re.MULTILINE)

_NO_CALL = ("empty", "no_action", "code", "malformed")
"""Kinds of unreadable text without a call."""

_REF_FIELDS = ("ref", "target_ref")


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """A parsed reply."""

    action: Action
    """The one action; an `InvalidAction` if there is not exactly one."""
    thought: str = ""
    """The reasoning, in whatever form the model gave it."""
    memory: str = ""
    """The text to remember; empty if the reply has no such section, or two of them."""
    said: str = ""
    """The words of the section Action, if the action itself follows in markup."""
    answer: str = ""
    """The reply's text without its reasoning."""
    rest: tuple[Action, ...] = ()
    """The actions after the first, if one tool call holds several."""
    calls: tuple[ToolCall, ...] = ()
    """The reply's tool calls, if the model was offered tools."""

    @property
    def parse_error(self) -> str:
        """Why the reply has no valid action; empty if it has one."""
        return self.action.reason if isinstance(self.action, InvalidAction) else ""


def parse_reply(
    reply: Any,
    dialect: Dialect,
    *,
    sections: Sequence[str] = (),
    marks: Sequence[str] | None = None,
) -> Reply:
    r"""Parse a reply.

    >>> from webtraj.environments.actions.dialects import make_dialect
    >>> parse_reply("Thought: Go on.\nAction: click('12')", make_dialect("webtraj"))
    Reply(action=Click(ref='12', button='left', modifiers=(), count=1), thought='Go on.', ...)

    Args:
        reply: The text, or a structured form that the dialect reads.
        dialect: The dialect of its action.
        sections: The labels of a reply's sections, in the prompt's order.
        marks: The refs of the marks on the screenshot, if actions name elements by mark number.
    """
    action = _action_in(reply, dialect)
    if not isinstance(reply, str):
        return Reply(_by_mark(action, marks, reply))
    valid = not isinstance(action, InvalidAction)
    text, reasoned = without_reasoning(reply), reasoning_of(reply)
    if reasoned and valid and not _same(text, action, dialect):
        text, reasoned = reply.strip(), ""  # The action itself contains the reasoning tags.
    labels = sections or ("Thought", ACTION)
    parts = sections_of(text, labels)
    if valid and ACTION not in parts:
        before = _prose_before(text, dialect, action)
        parts = sections_of(before, labels) or {"": before}
    said = parts.get(ACTION, "") if _BEFORE_ACTION.search(text) else ""
    reasoning = [reasoned]
    reasoning += [part for label, part in parts.items() if label not in (MEMORY, ACTION)]
    return Reply(
        _by_mark(action, marks, reply),
        thought="\n".join(part for part in reasoning if part),
        memory="" if repeats(text, MEMORY) else parts.get(MEMORY, ""),
        said=" ".join(said.split()),
        answer=text,
    )


def parse_call(
    call: trajectory_lib.ModelCall,
    dialect: Dialect,
    *,
    sections: Sequence[str] = (),
    marks: Sequence[str] | None = None,
) -> Reply:
    """Parse the reply of a model call: its text, or the tool call that the server took out of it.

    A reply with one action in its text and another in a tool call is invalid, as it has two. A
    reply that a content filter stopped has no action.
    """
    ending = ending_of(call.finish_reason)
    calls = [_readable(made) for made in model_replies.tool_calls_of(call.response)]
    spoken = parse_reply(call.text, dialect, sections=sections, marks=marks)
    reasoning = model_replies.reasoning_of(call).strip()
    if calls:
        in_text = not isinstance(spoken.action, InvalidAction)
        if (number := len(calls) + in_text) > 1:
            reason = f"The reply holds {number} actions; exactly one was expected."
            action: Action = invalid("several_actions", reason, call.text or calls)
        else:
            action = parse_reply(calls[0], dialect, marks=marks).action
        thought = spoken.thought or call.text.strip()
        spoken = dataclasses.replace(spoken, action=action, thought=thought)
    elif ending is Ending.CUT and isinstance(spoken.action, InvalidAction):
        reason = f"{spoken.action.reason} (The reply was cut off at its longest: be shorter.)"
        cut = dataclasses.replace(spoken.action, reason=reason)
        spoken = dataclasses.replace(spoken, action=cut)
    if ending is Ending.FILTERED:
        spoken = dataclasses.replace(spoken, action=_reject_filtered(call))
    if reasoning and reasoning not in spoken.thought:
        thought = "\n".join(part for part in (reasoning, spoken.thought) if part)
        spoken = dataclasses.replace(spoken, thought=thought)
    return spoken


def _reject_filtered(call: trajectory_lib.ModelCall) -> InvalidAction:
    reason = "A content filter stopped the reply. Say it in other words, or do something else."
    return invalid("filtered", reason, call.text)


def parse_tool_call(
    call: trajectory_lib.ModelCall, dialect: Dialect, *, marks: Sequence[str] | None = None
) -> Reply:
    """Parse the reply of a model that was offered the dialect's tools.

    The first tool call is the action; the text is the thought. Without a tool call, the text of a
    finished reply is the answer if the tools have no other way to end the episode, such as computer
    tools.
    """
    ending = ending_of(call.finish_reason)
    calls = model_replies.tool_calls_of(call.response)
    thought = "\n".join(
        part for part in (model_replies.reasoning_of(call).strip(), call.text.strip()) if part
    )
    if ending is Ending.FILTERED:
        return Reply(_reject_filtered(call), thought, answer=call.text.strip())
    if calls:
        read = getattr(dialect, "parse_all", None) or (lambda reply: (dialect.parse(reply),))
        wire = _readable(calls[0])
        action, *rest = (_by_mark(action, marks, wire) for action in read(wire))
        return Reply(action, thought, answer=call.text.strip(), rest=tuple(rest), calls=calls)
    if call.text.strip() and ending is Ending.WHOLE and Answer not in dialect.verbs:
        return Reply(Answer(without_reasoning(call.text)), thought, answer=call.text.strip())
    kind = "no_action" if call.text.strip() else "empty"
    cut = " (It was cut off at its longest: be shorter.)" * (ending is Ending.CUT)
    reason = f"The reply has no tool call; call one of the tools.{cut}"
    return Reply(invalid(kind, reason, call.text), thought, answer=call.text.strip())


def _readable(call: ToolCall) -> Mapping[str, Any]:
    """Return a tool call in the form that dialects read."""
    if call.item.get("type") in ("tool_use", "computer_call"):
        return call.item
    return {"name": call.name, "arguments": call.arguments}


def _action_in(reply: Any, dialect: Dialect) -> Action:
    action = dialect.parse(reply)
    if not isinstance(reply, str) or not isinstance(action, InvalidAction):
        return action
    if action.kind not in ("code", "no_action"):
        return action
    # Labelled lines such as `Thought: done` are also valid Python, which a dialect takes for code,
    # and not every dialect looks for JSON after a label. The text after a single label `Action:`
    # is the action, if there is no call before it.
    text = without_reasoning(reply)
    labels = list(_ACTION_LABEL.finditer(text))
    if len(labels) != 1:
        if len(labels) > 1:
            return invalid("several_actions", _SEVERAL.format(number=len(labels)), reply)
        return (action.kind == "code" and _after_labels(text, dialect)) or action
    before, after = text[: labels[0].start()], text[labels[0].end() :]
    if any(_has_call(part, dialect) for part in (before, *before.splitlines())):
        return invalid("several_actions", _SEVERAL.format(number="several"), reply)
    found = dialect.parse(after)
    return invalid(found.kind, found.reason, reply) if isinstance(found, InvalidAction) else found


_SEVERAL = "The reply holds {number} actions; exactly one was expected."


def _after_labels(text: str, dialect: Dialect) -> Action | None:
    """Parse `Thought: done` lines, followed by a call on its own line."""
    lines = [line for line in text.splitlines() if line.strip()]
    calls = [line for line in lines if _has_call(line, dialect)]
    if len(calls) != 1 or calls[0] is not lines[-1]:
        return None
    if not all(_LABEL.match(line) for line in lines[:-1]):
        return None  # It really is code.
    return dialect.parse(calls[0])


def _has_call(line: str, dialect: Dialect) -> bool:
    found = dialect.parse(_LABEL.sub("", line, count=1))
    return not isinstance(found, InvalidAction) or found.kind not in _NO_CALL


def _prose_before(text: str, dialect: Dialect, action: Action) -> str:
    """Return the text before the action, in a reply without labels."""
    words = "|".join(map(re.escape, dialect.words(type(action))))
    call = re.compile(rf"^[ \t`]*(?:(?:{words})[ \t]*[(\[]|\{{)", re.MULTILINE)
    starts = [found.start() for found in (_BEFORE_ACTION.search(text), call.search(text)) if found]
    return text[: min(starts)].strip() if starts else ""


def _same(text: str, action: Action, dialect: Dialect) -> bool:
    return _action_in(text, dialect) == action


def _by_mark(action: Action, marks: Sequence[str] | None, reply: Any) -> Action:
    """Return the action with mark numbers replaced by refs, if there are marks."""
    if marks is None:
        return action
    changed: dict[str, str] = {}
    for field in _REF_FIELDS:
        number = getattr(action, field, None)
        if number is None:
            continue
        if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= len(marks):
            shown = f"marks go from 1 to {len(marks)}" if marks else "the page has no marks"
            return invalid("bad_arguments", f"There is no mark {number[:40]!r}; {shown}.", reply)
        changed[field] = marks[int(number) - 1]
    if not changed:
        return action
    try:
        return dataclasses.replace(action, **changed)  # type: ignore[type-var]
    except errors.InvalidInputError as error:
        return invalid("bad_arguments", str(error), reply)
