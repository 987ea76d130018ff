"""Verbs of the browser itself: pages, history and tabs."""

from __future__ import annotations

from webtraj.environments.actions import fields as f
from webtraj.environments.actions.base import Action, verb

__all__ = ["CloseTab", "FocusTab", "GoBack", "GoForward", "Goto", "NewTab", "Reload"]


@verb("goto")
class Goto(Action):
    """Open a URL in the current tab.

    Example: goto('https://example.com/')
    """

    url: f.Url


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

    url: f.OptionalUrl = ""
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

    index: f.TabIndex
