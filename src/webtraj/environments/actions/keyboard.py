"""Verbs of the keyboard, which go to whatever has the focus."""

from __future__ import annotations

from webtraj.environments.actions import fields as f
from webtraj.environments.actions.base import Action, verb

__all__ = ["HoldKey", "InsertText", "KeyDown", "KeyUp", "PressKey", "TypeText"]


@verb("type_text")
class TypeText(Action):
    """Type text key by key into what has the focus.

    Example: keyboard_type('hello')
    """

    text: f.Text


@verb("insert_text")
class InsertText(Action):
    """Insert text at once into what has the focus, without key events.

    Example: keyboard_insert_text('hello')
    """

    text: f.Text


@verb("press_key")
class PressKey(Action):
    """Press keys, joined by + if held together.

    Example: keyboard_press('Control+a')
    """

    keys: f.Keys
    """One chord, or several separated by spaces, pressed in turn."""


@verb("key_down")
class KeyDown(Action):
    """Press a key and keep it down.

    Example: keyboard_down('Shift')
    """

    key: f.Key


@verb("key_up")
class KeyUp(Action):
    """Release a key.

    Example: keyboard_up('Shift')
    """

    key: f.Key


@verb("hold_key")
class HoldKey(Action):
    """Hold keys down for some seconds.

    Example: hold_key('ArrowRight', 1.5)
    """

    keys: f.Chord
    seconds: f.Seconds
