"""The base of all actions, and the checks of their fields."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar, dataclass_transform

from webtraj import errors
from webtraj.environments.actions.keys import MODIFIERS
from webtraj.environments.actions.rules import (
    MAX_COORDINATE,
    MAX_SCROLL,
    MAX_SECONDS,
    ChoiceRule,
    FlagRule,
    KeysRule,
    ManyRule,
    NumberRule,
    OptionalRule,
    Rule,
    TextRule,
    UrlRule,
)
from webtraj.store.values import record_type

__all__ = [
    "Action",
    "Button",
    "Chord",
    "Coordinate",
    "Count",
    "Delta",
    "Flag",
    "Key",
    "Keys",
    "Modifier",
    "Modifiers",
    "OptionalCoordinate",
    "OptionalRef",
    "OptionalUrl",
    "Options",
    "Path",
    "Paths",
    "Ref",
    "Seconds",
    "TabIndex",
    "Text",
    "Url",
    "VERBS",
    "rule_of",
    "summary_of",
    "verb",
]

# What all actions share: the base class, and the decorator that makes a dataclass a verb.

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
        made.rules = {field: rule_of(hints[field]) for field in names}
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


# The types of action fields, each with the rule that its values follow.
#
# A field is declared as `ref: Ref`, an `Annotated` type whose metadata is a rule (`actions.rules`).
# The rule checks the value when the action is made and describes it in JSON Schema, so that what a
# dialect tells a model and what is accepted from it cannot differ.
#
# Coordinates are CSS pixels of the viewport, from its top left corner, y down.


def rule_of(annotation: Any) -> Rule:
    """Returns the rule in an `Annotated` field type."""
    rule: Rule = annotation.__metadata__[0]
    return rule


_REF = TextRule(
    min_length=1,
    max_length=64,
    pattern=r"[A-Za-z0-9][A-Za-z0-9_.:\-]*",
    what="an element's ref as the observation shows it, such as '12'",
)
_COORDINATE = NumberRule(0, MAX_COORDINATE)

ButtonName = Literal["left", "middle", "right"]
Modifier = Literal["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]

Ref = Annotated[str, _REF]
"""An element, by the ref that the observation gives it."""
OptionalRef = Annotated[str | None, OptionalRule(_REF)]
Text = Annotated[str, TextRule()]
Url = Annotated[str, UrlRule()]
OptionalUrl = Annotated[str, UrlRule(optional=True)]
Key = Annotated[str, KeysRule(single=True)]
Keys = Annotated[str, KeysRule()]
Chord = Annotated[str, KeysRule(max_chords=1)]
Button = Annotated[ButtonName, ChoiceRule(("left", "middle", "right"))]
Modifiers = Annotated[
    tuple[Modifier, ...],
    ManyRule(
        ChoiceRule(MODIFIERS),
        max_items=len(MODIFIERS),
        what="a list of modifier keys",
        unique=True,
    ),
]
Count = Annotated[int, NumberRule(1, 3, whole=True)]
"""How many clicks in a row: 1, 2 (double) or 3 (triple)."""
Coordinate = Annotated[float, _COORDINATE]
OptionalCoordinate = Annotated[float | None, OptionalRule(_COORDINATE)]
Delta = Annotated[float, NumberRule(-MAX_SCROLL, MAX_SCROLL)]
"""CSS pixels to scroll by; positive is right and down."""
Seconds = Annotated[float, NumberRule(0, MAX_SECONDS, digits=3)]
"""A duration, kept to the millisecond."""
TabIndex = Annotated[int, NumberRule(0, 1000, whole=True)]
Flag = Annotated[bool, FlagRule()]
Options = Annotated[
    tuple[str, ...], ManyRule(TextRule(what="an option's label or value"), what="a list of options")
]
Paths = Annotated[
    tuple[str, ...],
    ManyRule(
        TextRule(min_length=1, max_length=4096, pattern=r"[^\x00]*", what="a file's path"),
        min_items=1,
        what="a list of file paths",
    ),
]
Path = Annotated[
    tuple[tuple[float, float], ...],
    ManyRule(
        ManyRule(_COORDINATE, min_items=2, max_items=2, what="a point [x, y]"),
        min_items=2,
        max_items=1024,
        what="a list of points",
    ),
]
