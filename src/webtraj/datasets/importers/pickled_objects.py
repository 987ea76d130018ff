"""What stands in the pickle machine for names and objects, and what it says when it must stop."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["Name", "NotPlainError", "StandIn"]


class NotPlainError(ValueError):
    """A value cannot be made plain data; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """A class or function, by its full name. It is never looked up."""

    full: str


@dataclasses.dataclass(slots=True)
class StandIn:
    """An object of a class that is not loaded: what it was made from."""

    class_name: str
    arguments: tuple[Any, ...] = ()
    keywords: dict[Any, Any] = dataclasses.field(default_factory=dict)
    state: Any = None
    items: list[tuple[Any, Any]] = dataclasses.field(default_factory=list)
    """What was set in it by key, in order."""
    elements: list[Any] = dataclasses.field(default_factory=list)
    """What was appended to it, in order."""

    def set_state(self, state: Any) -> None:
        """Notes the state that `__setstate__` would get."""
        self.state = state
