"""Verbs that act on an element, named by the ref that the observation gives it."""

from __future__ import annotations

from webtraj.environments.actions import fields as f
from webtraj.environments.actions.base import Action, verb

__all__ = [
    "Check",
    "Clear",
    "Click",
    "DragTo",
    "Fill",
    "Focus",
    "Hover",
    "Press",
    "SelectOption",
    "TypeInto",
    "Uncheck",
    "UploadFile",
]


@verb("click")
class Click(Action):
    """Click an element.

    Example: click('12', button='left', modifiers=['Shift'])
    """

    ref: f.Ref
    button: f.Button = "left"
    modifiers: f.Modifiers = ()
    """Keys held during the click."""
    count: f.Count = 1
    """1 for a click, 2 for a double click, 3 for a triple click."""


@verb("hover")
class Hover(Action):
    """Move the mouse over an element.

    Example: hover('12')
    """

    ref: f.Ref


@verb("fill")
class Fill(Action):
    """Set the value of a text field at once, replacing what it held.

    Example: fill('12', 'Anna Smith')
    """

    ref: f.Ref
    value: f.Text


@verb("type_into")
class TypeInto(Action):
    """Focus an element and type into it key by key, as a person would.

    Example: type_into('12', 'coffee', clear=True, submit=True)
    """

    ref: f.Ref
    text: f.Text
    clear: f.Flag = False
    """Whether to empty the field first."""
    submit: f.Flag = False
    """Whether to press Enter afterwards."""


@verb("select_option")
class SelectOption(Action):
    """Choose the options of a select element, by label or value.

    Example: select_option('12', ['Blue', 'Red'])
    """

    ref: f.Ref
    options: f.Options


@verb("check")
class Check(Action):
    """Tick a checkbox or radio button; does nothing if it is ticked.

    Example: check('12')
    """

    ref: f.Ref


@verb("uncheck")
class Uncheck(Action):
    """Untick a checkbox; does nothing if it is not ticked.

    Example: uncheck('12')
    """

    ref: f.Ref


@verb("focus")
class Focus(Action):
    """Give an element the keyboard focus.

    Example: focus('12')
    """

    ref: f.Ref


@verb("clear")
class Clear(Action):
    """Empty a text field.

    Example: clear('12')
    """

    ref: f.Ref


@verb("press")
class Press(Action):
    """Focus an element and press keys, joined by + if held together.

    Example: press('12', 'Control+a')
    """

    ref: f.Ref
    keys: f.Keys


@verb("drag_to")
class DragTo(Action):
    """Drag an element and drop it on another.

    Example: drag_and_drop('12', '15')
    """

    ref: f.Ref
    target_ref: f.Ref


@verb("upload_file")
class UploadFile(Action):
    """Choose files in a file input, or in the file chooser that clicking the element opens.

    Example: upload_file('12', ['report.pdf'])
    """

    ref: f.Ref
    paths: f.Paths
    """Files, below the folder that the environment allows uploads from."""
