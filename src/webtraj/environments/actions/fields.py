"""The types of action fields, each with the rule that its values follow.

A field is declared as `ref: Ref`, an `Annotated` type whose metadata is a rule (`actions.rules`).
The rule checks the value when the action is made and describes it in JSON Schema, so that what a
dialect tells a model and what is accepted from it cannot differ.

Coordinates are CSS pixels of the viewport, from its top left corner, y down.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

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

__all__ = [
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
    "rule_of",
]


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
