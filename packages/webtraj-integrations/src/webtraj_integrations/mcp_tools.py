"""The MCP server's tools: a table of functions from arguments to an action.

A function's docstring is its tool's description. The types of its parameters are those of action
fields (`webtraj.environments.actions.base`), whose rules check the arguments and make the schema.
The tools in `MANAGING` do not act; `webtraj_integrations.mcp` carries them out.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from webtraj import errors
from webtraj.environments import actions as a
from webtraj.environments.actions import base

__all__ = ["ACTING", "MANAGING", "SESSION", "Tool"]

SESSION = "session"
"""The argument of every tool but `open`: the session's handle."""

_Line = Annotated[int, base.NumberRule(1, 1_000_000, whole=True)]
_Seed = Annotated[int | None, base.OptionalRule(base.NumberRule(0, 2**31 - 1, whole=True))]
_TabVerb = Annotated[str, base.ChoiceRule(("new", "select", "close"))]


# Tools that act. Each returns the action to carry out.


def navigate(url: base.Url) -> a.Action:
    """Open a URL in the current tab."""
    return a.Goto(url)


def back() -> a.Action:
    """Go back to the previous page."""
    return a.GoBack()


def click(
    ref: base.OptionalRef = None,
    x: base.OptionalCoordinate = None,
    y: base.OptionalCoordinate = None,
    button: base.Button = "left",
    count: base.Count = 1,
    modifiers: base.Modifiers = (),
) -> a.Action:
    """Click an element by its ref. For a place without a ref give x and y instead.

    Args:
        ref: The element's ref, as in the page's text: 12 for [12].
        x: CSS pixels from the left edge of the screenshot.
        y: CSS pixels from its top edge.
        button: The mouse button.
        count: 2 for a double click.
        modifiers: Keys held during the click.
    """
    if ref is not None and x is None and y is None:
        return a.Click(ref, button=button, modifiers=modifiers, count=count)
    if ref is None and x is not None and y is not None:
        return a.ClickAt(x, y, button=button, modifiers=modifiers, count=count)
    raise errors.InvalidInputError("click takes an element's ref, or both x and y.")


def type_(
    ref: base.Ref, text: base.Text, clear: base.Flag = False, submit: base.Flag = False
) -> a.Action:
    """Type text into a field, after what it holds.

    Args:
        ref: The field's ref.
        text: The text, typed key by key.
        clear: Empty the field first.
        submit: Press Enter afterwards.
    """
    return a.TypeInto(ref, text, clear=clear, submit=submit)


def select(ref: base.Ref, options: base.Options) -> a.Action:
    """Choose options of a select element, or a field's suggestion, by label or value."""
    return a.SelectOption(ref, options)


def press(keys: base.Keys, ref: base.OptionalRef = None) -> a.Action:
    """Press keys, such as `Enter` or `Control+a`. With a ref, that element gets the focus first."""
    return a.PressKey(keys) if ref is None else a.Press(ref, keys)


def hover(ref: base.Ref) -> a.Action:
    """Move the mouse over an element."""
    return a.Hover(ref)


def drag(ref: base.Ref, target_ref: base.Ref) -> a.Action:
    """Drag an element and drop it on another."""
    return a.DragTo(ref, target_ref)


def scroll(dy: base.Delta, dx: base.Delta = 0, ref: base.OptionalRef = None) -> a.Action:
    """Scroll the page, or an element, by pixels; positive is down and right."""
    return a.Scroll(dx, dy, ref)


def tabs(
    action: _TabVerb, index: base.TabIndex | None = None, url: base.OptionalUrl = ""
) -> a.Action:
    """Open a new tab, select one by its index, or close the current one.

    Results list the tabs whenever there are several.

    Args:
        action: What to do.
        index: The tab to select, from 0.
        url: The page to open in a new tab.
    """
    if action == "select":
        if index is None:
            raise errors.InvalidInputError("tabs takes an index with the action 'select'.")
        return a.FocusTab(index)
    return a.NewTab(url) if action == "new" else a.CloseTab()


def upload(ref: base.Ref, paths: base.Paths) -> a.Action:
    """Choose files in a file input, or in the file chooser that clicking the element opens.

    Args:
        ref: The element's ref.
        paths: Files, relative to the folder that the server allows uploads from.
    """
    return a.UploadFile(ref, paths)


def wait(seconds: base.Seconds = 1.0) -> a.Action:
    """Wait, then return what changed. Other tools wait by themselves until the page is quiet."""
    return a.Wait(seconds)


def screenshot() -> a.Action:
    """Take a picture of what the window shows. To act, use refs; they are in the page's text."""
    return a.Screenshot()


def answer(text: base.Text = "") -> a.Action:
    """Say that the task is done, with the answer if it asks for one. This ends the session."""
    return a.Answer(text)


# Tools that do not act: only their signatures and descriptions are used.


def open_(task: base.Text = "", seed: _Seed = None, goal: base.Text = "") -> None:
    """Open a session: a browser page of your own. Returns its handle, the goal and the page.

    Args:
        task: The name of a task, if the server has several; by default each in turn.
        seed: The same seed gives the same task again.
        goal: What you want to do there, in a sentence, if the server has no tasks. It is recorded.
    """


def snapshot(ref: base.OptionalRef = None, line: _Line = 1) -> None:
    """Return the whole page as text. The other tools return only what their action changed.

    Args:
        ref: Return only this element and what is inside it.
        line: The first line to return, for a page that was cut off.
    """


def close() -> None:
    """Close a session without an answer. Its record ends here."""


# The table.

_READ_ONLY = (snapshot, screenshot, wait)
_REF = "The element's ref."


@dataclasses.dataclass(frozen=True, slots=True)
class Tool:
    """One tool."""

    name: str
    """Its name in calls."""
    description: str
    """Its function's docstring, without arguments."""
    function: Callable[..., Any]
    """Returns the action for the arguments; None for a tool in `MANAGING`."""
    rules: Mapping[str, base.Rule]
    """The rule of each argument."""
    schema: Mapping[str, Any]
    """The JSON Schema of the arguments, without the session."""
    read_only: bool
    """Whether it leaves the page as it is."""

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments in their canonical types.

        Raises:
            InvalidInputError: One is missing, unknown or breaks its rule.
        """
        usage = f"{self.name} takes ({', '.join(self.rules) or 'no arguments'})"
        for name in given:
            if name not in self.rules:
                raise errors.InvalidInputError(f"Unknown argument {name!r:.60}: {usage}.")
        for name in self.schema["required"]:
            if name not in given:
                raise errors.InvalidInputError(f"The argument {name!r} is missing: {usage}.")
        checked = {}
        for name, value in given.items():
            try:
                checked[name] = self.rules[name].check(value)
            except ValueError as error:
                raise errors.InvalidInputError(f"{self.name}: {name} must be {error}.") from None
        return checked


def _tool(function: Callable[..., Any]) -> Tool:
    text, _, arguments = (inspect.getdoc(function) or "").partition("\n\nArgs:\n")
    described = dict(re.findall(r"^ *(\w+): (.+)$", arguments, re.MULTILINE))
    hints = typing.get_type_hints(function, include_extras=True)
    rules, properties, required = {}, {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        rules[name] = _rule_of(hints[name])
        schema = rules[name].schema()
        about = described.get(name) or (_REF if name in ("ref", "target_ref") else "")
        if name in ("ref", "target_ref"):
            schema = {"type": "string"}  # Its rule's pattern helps no model.
        properties[name] = {**schema, **({"description": about} if about else {})}
        if parameter.default is parameter.empty:
            required.append(name)
        elif parameter.default not in (None, "", ()):
            properties[name]["default"] = parameter.default
    return Tool(
        name=function.__name__.rstrip("_"),
        description=" ".join(text.split()),
        function=function,
        rules=rules,
        schema={"type": "object", "properties": properties, "required": required},
        read_only=function in _READ_ONLY,
    )


def _rule_of(hint: Any) -> base.Rule:
    """Return a parameter's rule. If the parameter may be None, the rule is optional."""
    if typing.get_origin(hint) is Annotated:
        return base.rule_of(hint)
    (inner,) = (one for one in typing.get_args(hint) if one is not types.NoneType)
    return base.OptionalRule(base.rule_of(inner))


def _table(*functions: Callable[..., Any]) -> dict[str, Tool]:
    return {tool.name: tool for tool in map(_tool, functions)}


MANAGING = _table(open_, snapshot, close)
"""Tools that do not act, by name."""
ACTING = _table(
    navigate,
    back,
    click,
    type_,
    select,
    press,
    hover,
    drag,
    scroll,
    tabs,
    upload,
    wait,
    screenshot,
    answer,
)
"""Tools that act, by name."""
