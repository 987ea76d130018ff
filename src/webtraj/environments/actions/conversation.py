"""Verbs that leave the page as it is: waiting, looking, talking, and what was no action at all."""

from __future__ import annotations

from typing import Annotated

from webtraj.environments.actions import fields as f
from webtraj.environments.actions.base import Action, verb
from webtraj.environments.actions.rules import ChoiceRule

__all__ = [
    "INVALID_KINDS",
    "Answer",
    "CursorPosition",
    "InvalidAction",
    "ReportInfeasible",
    "Screenshot",
    "SendMessage",
    "Wait",
]


@verb("wait")
class Wait(Action):
    """Do nothing for some time, to let the page finish.

    Example: noop(1000)
    """

    seconds: f.Seconds = 1.0


@verb("screenshot")
class Screenshot(Action):
    """Look at the page again.

    Example: screenshot()
    """


@verb("cursor_position")
class CursorPosition(Action):
    """Ask where the mouse is.

    Example: cursor_position()
    """


@verb("send_message")
class SendMessage(Action):
    """Send a message to the user.

    Example: send_msg_to_user('The price is 12 dollars.')
    """

    text: f.Text


@verb("answer")
class Answer(Action):
    """Give the answer to the task and end the episode.

    Example: answer('12 dollars')
    """

    text: f.Text


@verb("report_infeasible")
class ReportInfeasible(Action):
    """Say that the task cannot be done, and why, and end the episode.

    Example: report_infeasible('The site asks for a password that I was not given.')
    """

    reason: f.Text


INVALID_KINDS = (
    "empty",
    "too_long",
    "no_action",
    "several_actions",
    "malformed",
    "code",
    "unknown_action",
    "bad_arguments",
)


@verb("invalid")
class InvalidAction(Action):
    """A reply that could not be read as an action.

    An environment answers it with an error observation and leaves the page alone.
    """

    reason: f.Text
    """What was wrong, what was expected: a sentence for the model."""
    text: f.Text = ""
    """The reply, shortened if long."""
    kind: Annotated[str, ChoiceRule(INVALID_KINDS)] = "malformed"
    """What was wrong, in one word for counting:

    * `empty`: nothing but white space.
    * `too_long`: longer than any action can be.
    * `no_action`: text, but no call in it.
    * `several_actions`: more than one call where one was expected.
    * `malformed`: a call that breaks off or breaks the grammar.
    * `code`: a program where only literal values are read.
    * `unknown_action`: a call by a name that the dialect does not have.
    * `bad_arguments`: an argument missing, surplus, or of a wrong type or range.
    """
