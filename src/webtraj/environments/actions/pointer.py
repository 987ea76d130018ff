"""Verbs that act at a point: CSS pixels of the viewport, from its top left corner."""

from __future__ import annotations

from webtraj import errors
from webtraj.environments.actions import fields as f
from webtraj.environments.actions.base import Action, verb

__all__ = [
    "ClickAt",
    "DragAt",
    "MouseDown",
    "MouseUp",
    "MoveMouse",
    "Scroll",
    "ScrollAt",
    "TypeAt",
    "UploadFileAt",
]


@verb("click_at")
class ClickAt(Action):
    """Click at a point.

    Example: mouse_click(320, 240, button='right')
    """

    x: f.Coordinate
    y: f.Coordinate
    button: f.Button = "left"
    modifiers: f.Modifiers = ()
    """Keys held during the click."""
    count: f.Count = 1
    """1 for a click, 2 for a double click, 3 for a triple click."""


@verb("type_at")
class TypeAt(Action):
    """Click at a point and type there key by key.

    Example: type_at(320, 240, 'coffee', clear=True, submit=True)
    """

    x: f.Coordinate
    y: f.Coordinate
    text: f.Text
    clear: f.Flag = False
    """Whether to empty the field first."""
    submit: f.Flag = False
    """Whether to press Enter afterwards."""


@verb("move_mouse")
class MoveMouse(Action):
    """Move the mouse to a point.

    Example: mouse_move(320, 240)
    """

    x: f.Coordinate
    y: f.Coordinate


@verb("mouse_down")
class MouseDown(Action):
    """Press a mouse button and hold it.

    Example: mouse_down(320, 240)
    """

    x: f.OptionalCoordinate = None
    """Where to move first; None, with `y`, for where the mouse is."""
    y: f.OptionalCoordinate = None
    button: f.Button = "left"

    def __post_init__(self) -> None:
        Action.__post_init__(self)
        _check_both_or_neither(self)


@verb("mouse_up")
class MouseUp(Action):
    """Release a mouse button.

    Example: mouse_up(320, 240)
    """

    x: f.OptionalCoordinate = None
    """Where to move first; None, with `y`, for where the mouse is."""
    y: f.OptionalCoordinate = None
    button: f.Button = "left"

    def __post_init__(self) -> None:
        Action.__post_init__(self)
        _check_both_or_neither(self)


@verb("drag_at")
class DragAt(Action):
    """Drag with the left mouse button along a path of points.

    Example: mouse_drag_and_drop(100, 200, 300, 200)
    """

    path: f.Path
    """At least two points (x, y): where to press, through what to move, where to release."""
    modifiers: f.Modifiers = ()
    """Keys held meanwhile."""


@verb("scroll")
class Scroll(Action):
    """Scroll the page, or an element, by pixels; positive is right and down.

    Example: scroll(0, 300)
    """

    dx: f.Delta
    dy: f.Delta
    ref: f.OptionalRef = None
    """The element to scroll; None for the page."""


@verb("scroll_at")
class ScrollAt(Action):
    """Turn the mouse wheel at a point, by pixels; positive is right and down.

    Example: scroll_at(320, 240, 0, 300)
    """

    x: f.Coordinate
    y: f.Coordinate
    dx: f.Delta
    dy: f.Delta
    modifiers: f.Modifiers = ()
    """Keys held meanwhile."""


@verb("upload_file_at")
class UploadFileAt(Action):
    """Choose files in the file chooser that a click at a point opens.

    Example: mouse_upload_file(320, 240, ['report.pdf'])
    """

    x: f.Coordinate
    y: f.Coordinate
    paths: f.Paths
    """Files, below the folder that the environment allows uploads from."""


def _check_both_or_neither(action: MouseDown | MouseUp) -> None:
    if (action.x is None) != (action.y is None):
        raise errors.InvalidInputError(
            f"{type(action).__name__} takes both x and y, or neither for where the mouse is; "
            f"got x={action.x}, y={action.y}."
        )
