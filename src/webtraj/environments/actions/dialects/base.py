"""What every dialect does, and the words for what can go wrong in it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from webtraj.environments.actions.base import Action
from webtraj.environments.actions.verbs import InvalidAction

__all__ = ["MAX_REPLY", "Dialect", "ParseError", "FormatError", "invalid", "named"]

MAX_REPLY = 1_250_000
"""Characters in the longest reply that is read: the longest text, every character escaped."""

_MAX_QUOTED = 2_000


@runtime_checkable
class Dialect(Protocol):
    """A way of saying actions: a model's output format."""

    name: str
    """The dialect's name, such as `browsergym`."""

    @property
    def verbs(self) -> tuple[type[Action], ...]:
        """The verbs that it has words for, in some cases at least."""

    def words(self, verb: type[Action]) -> tuple[str, ...]:
        """Returns the words that say a verb; none if it cannot be said."""

    def parse(self, reply: Any) -> Action:
        """Reads a model's reply as one action.

        Never raises on what a model wrote and never guesses: a reply that does not hold exactly one
        action in the dialect's grammar is an `InvalidAction`, which says why.
        """

    def format(self, action: Action) -> Any:
        """Says an action in the dialect.

        `parse(format(action))` is the action again, its coordinates rounded to the dialect's grid.

        Raises:
          UnsupportedActionError: If the dialect has no words for it.
        """

    def schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of one action in its structured form."""

    def tools(self) -> list[dict[str, Any]]:
        """Returns the tool definitions to offer to a model; empty if the dialect is plain text."""

    def prompt(self) -> str:
        """Returns the text that tells a model how to act."""


class ParseError(Exception):
    """A reply cannot be read. Becomes an `InvalidAction`."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class FormatError(Exception):
    """One phrase cannot say an action. Another may."""


def invalid(kind: str, reason: str, reply: Any) -> InvalidAction:
    """Returns the action that stands for an unreadable reply, quoting it shortened."""
    text = reply[: _MAX_QUOTED + 1] if isinstance(reply, str) else _repr(reply)
    if len(text) > _MAX_QUOTED:
        text = f"{text[:_MAX_QUOTED]}..."
    return InvalidAction(_storable(reason), _storable(text), kind)


def named(wire: Any) -> str:
    """Returns how a message names a value that a model gave for a name."""
    return repr(wire[:60]) if isinstance(wire, str) else f"a {type(wire).__name__}"


def _repr(reply: Any) -> str:
    try:
        return repr(reply)
    except RecursionError:
        return f"<a deeply nested {type(reply).__name__}>"


def _storable(text: str) -> str:
    # A model's JSON can hold lone surrogates, which no file format takes.
    return text.encode(errors="replace").decode()
