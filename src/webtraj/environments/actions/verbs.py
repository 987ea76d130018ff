"""The verbs: what an agent can do."""

from __future__ import annotations

from typing import Annotated

from webtraj import errors
from webtraj.environments.actions import base
from webtraj.environments.actions.base import Action, ChoiceRule, verb

__all__ = [
    "KEYBOARD",
    "Answer",
    "Check",
    "Clear",
    "Click",
    "ClickAt",
    "CloseTab",
    "CursorPosition",
    "DragAt",
    "DragTo",
    "Fill",
    "Focus",
    "FocusTab",
    "GoBack",
    "GoForward",
    "Goto",
    "HoldKey",
    "Hover",
    "INVALID_KINDS",
    "InsertText",
    "InvalidAction",
    "KeyDown",
    "KeyUp",
    "MouseDown",
    "MouseUp",
    "MoveMouse",
    "NewTab",
    "Press",
    "PressKey",
    "Reload",
    "ReportInfeasible",
    "Screenshot",
    "Scroll",
    "ScrollAt",
    "SelectOption",
    "SendMessage",
    "TypeAt",
    "TypeInto",
    "TypeText",
    "Uncheck",
    "UploadFile",
    "UploadFileAt",
    "Wait",
]

# Verbs that leave the page as it is: waiting, looking, talking, and replies that are not actions.


@verb("wait")
class Wait(Action):
    """Do nothing for some time, to let the page finish.

    Example: noop(1000)
    """

    seconds: base.Seconds = 1.0


@verb("screenshot")
class Screenshot(Action):
    """Look at the page again, or at a part of it enlarged.

    Example: screenshot()
    """

    region: base.Region = ()
    """The part (left, top, right, bottom) to show enlarged; empty for the whole viewport. The
    environment's observation is the same; the agent enlarges the part for the model."""


@verb("cursor_position")
class CursorPosition(Action):
    """Ask where the mouse is.

    Example: cursor_position()
    """


@verb("send_message")
class SendMessage(Action):
    """Send a message to the user.

    In a task without a judge, it is the answer and ends the episode.

    Example: send_msg_to_user('The price is 12 dollars.')
    """

    text: base.Text


@verb("answer")
class Answer(Action):
    """Give the answer to the task and end the episode.

    Example: answer('12 dollars')
    """

    text: base.Text


@verb("report_infeasible")
class ReportInfeasible(Action):
    """Say that the task cannot be done, and why, and end the episode.

    Example: report_infeasible('The site asks for a password that I was not given.')
    """

    reason: base.Text


INVALID_KINDS = (
    "empty",
    "too_long",
    "no_action",
    "several_actions",
    "malformed",
    "filtered",
    "code",
    "unknown_action",
    "bad_arguments",
)


@verb("invalid")
class InvalidAction(Action):
    """A reply that could not be read as an action.

    An environment answers it with an error observation and leaves the page alone.
    """

    reason: base.Text
    """What was wrong, what was expected: a sentence for the model."""
    text: base.Text = ""
    """The reply, shortened if long."""
    kind: Annotated[str, ChoiceRule(INVALID_KINDS)] = "malformed"
    """What was wrong, in one word for counting:

    * `empty`: nothing but white space.
    * `too_long`: longer than any action can be.
    * `no_action`: text, but no call in it.
    * `several_actions`: more than one call where one was expected.
    * `malformed`: a call that breaks off or breaks the grammar.
    * `filtered`: a reply that a content filter stopped.
    * `code`: a program where only literal values are read.
    * `unknown_action`: a call by a name that the dialect does not have.
    * `bad_arguments`: an argument missing, surplus, or of a wrong type or range.
    """


# Verbs of the keyboard, which go to whatever has the focus.


@verb("type_text")
class TypeText(Action):
    """Type text key by key into what has the focus.

    Example: keyboard_type('hello')
    """

    text: base.Text


@verb("insert_text")
class InsertText(Action):
    """Insert text at once into what has the focus, without key events.

    Example: keyboard_insert_text('hello')
    """

    text: base.Text


@verb("press_key")
class PressKey(Action):
    """Press keys, joined by + if held together.

    Example: keyboard_press('Control+a')
    """

    keys: base.Keys
    """One chord, or several separated by spaces, pressed in turn."""


@verb("key_down")
class KeyDown(Action):
    """Press a key and keep it down.

    Example: keyboard_down('Shift')
    """

    key: base.Key


@verb("key_up")
class KeyUp(Action):
    """Release a key.

    Example: keyboard_up('Shift')
    """

    key: base.Key


@verb("hold_key")
class HoldKey(Action):
    """Hold keys down for some seconds.

    Example: hold_key('ArrowRight', 1.5)
    """

    keys: base.Chord
    seconds: base.Seconds


KEYBOARD = (TypeText, InsertText, PressKey, KeyDown, KeyUp, HoldKey)
"""Verbs that name no element: they go to the one with the focus."""


# Verbs that act at a point: CSS pixels of the viewport, from its top left corner.


@verb("click_at")
class ClickAt(Action):
    """Click at a point.

    Example: mouse_click(320, 240, button='right')
    """

    x: base.Coordinate
    y: base.Coordinate
    button: base.Button = "left"
    modifiers: base.Modifiers = ()
    """Keys held during the click."""
    count: base.Count = 1
    """1 for a click, 2 for a double click, 3 for a triple click."""


@verb("type_at")
class TypeAt(Action):
    """Click at a point and type there key by key.

    Example: type_at(320, 240, 'coffee', clear=True, submit=True)
    """

    x: base.Coordinate
    y: base.Coordinate
    text: base.Text
    clear: base.Flag = False
    """Whether to empty the field first."""
    submit: base.Flag = False
    """Whether to press Enter afterwards."""


@verb("move_mouse")
class MoveMouse(Action):
    """Move the mouse to a point.

    Example: mouse_move(320, 240)
    """

    x: base.Coordinate
    y: base.Coordinate


@verb("mouse_down")
class MouseDown(Action):
    """Press a mouse button and hold it.

    Example: mouse_down(320, 240)
    """

    x: base.OptionalCoordinate = None
    """Where to move first; None, with `y`, for where the mouse is."""
    y: base.OptionalCoordinate = None
    button: base.Button = "left"

    def __post_init__(self) -> None:
        Action.__post_init__(self)
        _check_both_or_neither(self)


@verb("mouse_up")
class MouseUp(Action):
    """Release a mouse button.

    Example: mouse_up(320, 240)
    """

    x: base.OptionalCoordinate = None
    """Where to move first; None, with `y`, for where the mouse is."""
    y: base.OptionalCoordinate = None
    button: base.Button = "left"

    def __post_init__(self) -> None:
        Action.__post_init__(self)
        _check_both_or_neither(self)


@verb("drag_at")
class DragAt(Action):
    """Drag with the left mouse button along a path of points.

    Example: mouse_drag_and_drop(100, 200, 300, 200)
    """

    path: base.Path
    """At least two points (x, y): where to press, through what to move, where to release."""
    modifiers: base.Modifiers = ()
    """Keys held meanwhile."""


@verb("scroll")
class Scroll(Action):
    """Scroll the page, or an element, by pixels; positive is right and down.

    Example: scroll(0, 300)
    """

    dx: base.Delta
    dy: base.Delta
    ref: base.OptionalRef = None
    """The element to scroll; None for the page."""


@verb("scroll_at")
class ScrollAt(Action):
    """Turn the mouse wheel at a point, by pixels; positive is right and down.

    Example: scroll_at(320, 240, 0, 300)
    """

    x: base.Coordinate
    y: base.Coordinate
    dx: base.Delta
    dy: base.Delta
    modifiers: base.Modifiers = ()
    """Keys held meanwhile."""


@verb("upload_file_at")
class UploadFileAt(Action):
    """Choose files in the file chooser that a click at a point opens.

    Example: mouse_upload_file(320, 240, ['report.pdf'])
    """

    x: base.Coordinate
    y: base.Coordinate
    paths: base.Paths
    """Files, below the folder that the environment allows uploads from."""


def _check_both_or_neither(action: MouseDown | MouseUp) -> None:
    if (action.x is None) != (action.y is None):
        raise errors.InvalidInputError(
            f"{type(action).__name__} takes both x and y, or neither for where the mouse is; "
            f"got x={action.x}, y={action.y}."
        )


# Verbs that act on an element, named by the ref that the observation gives it.


@verb("click")
class Click(Action):
    """Click an element.

    Example: click('12', button='left', modifiers=['Shift'])
    """

    ref: base.Ref
    button: base.Button = "left"
    modifiers: base.Modifiers = ()
    """Keys held during the click."""
    count: base.Count = 1
    """1 for a click, 2 for a double click, 3 for a triple click."""


@verb("hover")
class Hover(Action):
    """Move the mouse over an element.

    Example: hover('12')
    """

    ref: base.Ref


@verb("fill")
class Fill(Action):
    """Set the value of a text field at once, replacing what it held.

    Example: fill('12', 'Anna Smith')
    """

    ref: base.Ref
    value: base.Text


@verb("type_into")
class TypeInto(Action):
    """Focus an element and type into it key by key, as a person would.

    Example: type_into('12', 'coffee', clear=True, submit=True)
    """

    ref: base.Ref
    text: base.Text
    clear: base.Flag = False
    """Whether to empty the field first."""
    submit: base.Flag = False
    """Whether to press Enter afterwards."""


@verb("select_option")
class SelectOption(Action):
    """Choose the options of a select element, or a field's suggestion, by label or value.

    Example: select_option('12', ['Blue', 'Red'])
    """

    ref: base.Ref
    options: base.Options


@verb("check")
class Check(Action):
    """Tick a checkbox or radio button; does nothing if it is ticked.

    Example: check('12')
    """

    ref: base.Ref


@verb("uncheck")
class Uncheck(Action):
    """Untick a checkbox; does nothing if it is not ticked.

    Example: uncheck('12')
    """

    ref: base.Ref


@verb("focus")
class Focus(Action):
    """Give an element the keyboard focus.

    Example: focus('12')
    """

    ref: base.Ref


@verb("clear")
class Clear(Action):
    """Empty a text field.

    Example: clear('12')
    """

    ref: base.Ref


@verb("press")
class Press(Action):
    """Focus an element and press keys, joined by + if held together.

    Example: press('12', 'Control+a')
    """

    ref: base.Ref
    keys: base.Keys


@verb("drag_to")
class DragTo(Action):
    """Drag an element and drop it on another.

    Example: drag_and_drop('12', '15')
    """

    ref: base.Ref
    target_ref: base.Ref


@verb("upload_file")
class UploadFile(Action):
    """Choose files in a file input, or in the file chooser that clicking the element opens.

    Example: upload_file('12', ['report.pdf'])
    """

    ref: base.Ref
    paths: base.Paths
    """Files, below the folder that the environment allows uploads from."""


# Verbs of the browser itself: pages, history and tabs.


@verb("goto")
class Goto(Action):
    """Open a URL in the current tab.

    Example: goto('https://example.com/')
    """

    url: base.Url


@verb("go_back")
class GoBack(Action):
    """Go back to the previous page.

    Example: go_back()
    """


@verb("go_forward")
class GoForward(Action):
    """Go forward to the next page.

    Example: go_forward()
    """


@verb("reload")
class Reload(Action):
    """Load the current page again.

    Example: reload()
    """


@verb("new_tab")
class NewTab(Action):
    """Open a new tab and switch to it.

    Example: new_tab()
    """

    url: base.OptionalUrl = ""
    """What to open in it; a blank page if empty."""


@verb("close_tab")
class CloseTab(Action):
    """Close the current tab.

    Example: tab_close()
    """


@verb("focus_tab")
class FocusTab(Action):
    """Switch to a tab by its index, from 0.

    Example: tab_focus(1)
    """

    index: base.TabIndex
