"""What all actions share: the base class, and the decorator that makes a dataclass a verb."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, dataclass_transform

from webtraj import errors
from webtraj.environments.actions import fields as fields_lib
from webtraj.environments.actions.rules import Rule
from webtraj.store.values import record_type

__all__ = ["VERBS", "Action", "summary_of", "verb"]

_MAX_SHOWN = 80

_A = TypeVar("_A", bound="Action")

VERBS: dict[str, type[Action]] = {}
"""Every verb by its canonical name, in the order of their declaration."""


class Action:
    """One thing to do in a browser: an immutable value.

    Each verb is a frozen dataclass whose fields carry their rules (`actions.fields`). An action
    that exists follows them: making one that does not raises `InvalidInputError`.
    """

    __slots__ = ()

    verb: ClassVar[str] = ""
    """The canonical name: `click_at` for `ClickAt`."""
    rules: ClassVar[Mapping[str, Rule]] = {}
    """The rule of each field."""

    def __post_init__(self) -> None:
        for name, rule in self.rules.items():
            value = getattr(self, name)
            try:
                checked = rule.check(value)
            except ValueError as error:
                raise errors.InvalidInputError(
                    f"{type(self).__name__}.{name} must be {error}; got {_shown(value)}."
                ) from None
            if checked is not value:
                object.__setattr__(self, name, checked)


@dataclass_transform(frozen_default=True)
def verb(name: str) -> Callable[[type[_A]], type[_A]]:
    """Makes a class a verb: a frozen, slotted dataclass, stored as the record `action/<name>`.

    The first line of its docstring is its description in prompts; the line `Example: ...` is a call
    in webtraj's own dialect.
    """

    def decorate(cls: type[_A]) -> type[_A]:
        made = dataclasses.dataclass(frozen=True, slots=True)(cls)
        hints = typing.get_type_hints(made, include_extras=True)
        names = [field.name for field in dataclasses.fields(made)]  # type: ignore[arg-type]
        made.verb = name
        made.rules = {field: fields_lib.rule_of(hints[field]) for field in names}
        VERBS[name] = made
        return record_type(f"action/{name}")(made)

    return decorate


def summary_of(cls: type[Action]) -> str:
    """Returns the first line of a verb's docstring."""
    return (cls.__doc__ or "").strip().partition("\n")[0]


def example_of(cls: type[Action]) -> str:
    """Returns the example call in a verb's docstring; empty if it has none."""
    _, found, rest = (cls.__doc__ or "").partition("Example: ")
    return rest.partition("\n")[0].strip() if found else ""


def _shown(value: Any) -> str:
    text = ascii(value[:_MAX_SHOWN] if isinstance(value, (str, bytes, list, tuple)) else value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
