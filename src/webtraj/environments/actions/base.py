"""The base class of actions, and the rules for the values of their fields."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar, dataclass_transform
from urllib.parse import urlsplit

from webtraj import errors
from webtraj.environments.actions import keys as keys_lib
from webtraj.environments.actions.keys import MODIFIERS
from webtraj.store.values import record_type

__all__ = [
    "Action",
    "Button",
    "ChoiceRule",
    "Chord",
    "Coordinate",
    "Count",
    "Delta",
    "Flag",
    "FlagRule",
    "Key",
    "Keys",
    "KeysRule",
    "MAX_COORDINATE",
    "MAX_SCROLL",
    "MAX_SECONDS",
    "MAX_TEXT",
    "ManyRule",
    "Modifier",
    "Modifiers",
    "NumberRule",
    "OptionalCoordinate",
    "OptionalRef",
    "OptionalRule",
    "OptionalUrl",
    "Options",
    "Path",
    "Paths",
    "Ref",
    "Region",
    "RegionRule",
    "Rule",
    "Seconds",
    "TabIndex",
    "Text",
    "TextRule",
    "Url",
    "UrlRule",
    "VERBS",
    "rule_of",
    "summary_of",
    "verb",
]

# Rules for field values: each checks a value and describes it in JSON Schema.

MAX_TEXT = 100_000
"""The longest text in an action, in characters."""
MAX_COORDINATE = 100_000
"""Larger than any viewport: greater numbers are a model's mistake."""
MAX_SCROLL = 1_000_000
MAX_SECONDS = 100.0
"""The longest wait in Anthropic's computer use."""


class Rule(Protocol):
    """A rule for the values of a field."""

    def check(self, value: Any) -> Any:
        """Return the value in its canonical type.

        Raises:
          ValueError: The value is invalid. The message describes valid values.
        """

    def schema(self) -> dict[str, Any]:
        """Return the rule in JSON Schema."""


def _plain(text: str) -> str:
    """Return a text as a plain `str`; subclasses such as numpy's have another repr."""
    return text if type(text) is str else str.__str__(text)


@dataclasses.dataclass(frozen=True, slots=True)
class TextRule:
    """A string of valid Unicode, of bounded length, that matches a pattern if one is given."""

    min_length: int = 0
    max_length: int = MAX_TEXT
    pattern: str = ""
    what: str = "text"

    def check(self, value: Any) -> str:
        """See `Rule.check`."""
        if not isinstance(value, str):
            raise ValueError(f"{self.what} (a string)")
        if len(value) > self.max_length:
            raise ValueError(f"{self.what} of at most {self.max_length} characters")
        if len(value) < self.min_length:
            raise ValueError(f"{self.what} that is not empty")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise ValueError(self.what)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{self.what} without lone surrogates") from None
        return _plain(value)

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        schema: dict[str, Any] = {"type": "string"}
        if self.min_length:
            schema["minLength"] = self.min_length
        if self.pattern:
            schema["pattern"] = f"^{self.pattern}$"
        return schema


@dataclasses.dataclass(frozen=True, slots=True)
class NumberRule:
    """A finite number within bounds, an int if `whole`; bools are rejected."""

    low: float
    high: float
    whole: bool = False
    digits: int | None = None
    """Decimal places that are kept; None keeps all."""

    def check(self, value: Any) -> float:
        """See `Rule.check`."""
        kinds = int if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ValueError(self._what())
        if not self.low <= value <= self.high:  # Rejects NaN too.
            raise ValueError(self._what())
        number = int(value) if isinstance(value, int) else float(value)
        return number if self.digits is None else round(number, self.digits)

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        kind = "integer" if self.whole else "number"
        return {"type": kind, "minimum": self.low, "maximum": self.high}

    def _what(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low:.12g} to {self.high:.12g}"


@dataclasses.dataclass(frozen=True, slots=True)
class ChoiceRule:
    """One of a few strings."""

    choices: tuple[str, ...]

    def check(self, value: Any) -> str:
        """See `Rule.check`."""
        if not isinstance(value, str) or value not in self.choices:
            raise ValueError(f"one of {', '.join(self.choices)}")
        return _plain(value)

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        return {"type": "string", "enum": list(self.choices)}


@dataclasses.dataclass(frozen=True, slots=True)
class FlagRule:
    """True or False."""

    def check(self, value: Any) -> bool:
        """See `Rule.check`."""
        if not isinstance(value, bool):
            raise ValueError("true or false")
        return value

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        return {"type": "boolean"}


@dataclasses.dataclass(frozen=True, slots=True)
class KeysRule:
    """Key names, as `webtraj.environments.actions.keys` defines them."""

    max_chords: int = 100
    single: bool = False

    def check(self, value: Any) -> str:
        """See `Rule.check`."""
        if not isinstance(value, str) or not value:
            raise ValueError("key names such as 'Enter' or 'Control+a' (a string)")
        if self.single and value not in keys_lib.KEYS:
            raise ValueError("one Playwright key name such as 'Shift'")
        if problem := keys_lib.check_keys(value, max_chords=self.max_chords):
            raise ValueError(problem)
        return _plain(value)

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        return {"type": "string", "minLength": 1}


@dataclasses.dataclass(frozen=True, slots=True)
class UrlRule:
    """An absolute http or https URL, or `about:blank`. Also the empty string if `optional`.

    The environment's network policy decides what a URL may reach. This rule rejects URLs that are
    never pages to visit: `javascript:`, `data:`, `file:`, `chrome:` and others.
    """

    optional: bool = False

    def check(self, value: Any) -> str:
        """See `Rule.check`."""
        what = "an absolute URL with http:// or https:// (or about:blank)"
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise ValueError(what)
        if value == "about:blank" or (self.optional and not value):
            return _plain(value)
        if re.search(r"[\x00-\x20\x7f\\]", value):
            raise ValueError(f"{what}, without spaces, backslashes or control characters")
        TextRule(what=what).check(value)
        try:
            parts = urlsplit(value)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise ValueError(what) from None
        if parts.scheme.lower() not in ("http", "https") or not host:
            raise ValueError(what)
        return _plain(value)

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        return {"type": "string", "format": "uri"}


@dataclasses.dataclass(frozen=True, slots=True)
class ManyRule:
    """Several values of one rule, kept as a tuple."""

    item: Rule
    min_items: int = 0
    max_items: int = 256
    what: str = "a list"
    unique: bool = False

    def check(self, value: Any) -> tuple[Any, ...]:
        """See `Rule.check`."""
        if not isinstance(value, (list, tuple)):
            raise ValueError(self.what)
        if not self.min_items <= len(value) <= self.max_items:
            raise ValueError(f"{self.what} of {self.min_items} to {self.max_items} items")
        items = tuple(self.item.check(item) for item in value)
        if self.unique and len(set(items)) < len(items):
            raise ValueError(f"{self.what}, each once")
        return items

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        schema: dict[str, Any] = {"type": "array", "items": self.item.schema()}
        if self.min_items:
            schema["minItems"] = self.min_items
        return schema


@dataclasses.dataclass(frozen=True, slots=True)
class RegionRule:
    """A part of the viewport (left, top, right, bottom). Empty means all of it."""

    def check(self, value: Any) -> tuple[float, ...]:
        """See `Rule.check`."""
        what = "a region [left, top, right, bottom] of some width and height"
        numbers = ManyRule(NumberRule(0, MAX_COORDINATE), max_items=4, what=what).check(value)
        match numbers:
            case ():
                return numbers
            case left, top, right, bottom if left < right and top < bottom:
                return numbers
        raise ValueError(what)

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        number = NumberRule(0, MAX_COORDINATE).schema()
        return {"type": "array", "items": number, "minItems": 4, "maxItems": 4}


@dataclasses.dataclass(frozen=True, slots=True)
class OptionalRule:
    """A value of another rule, or None."""

    rule: Rule

    def check(self, value: Any) -> Any:
        """See `Rule.check`."""
        return None if value is None else self.rule.check(value)

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        return self.rule.schema()


# The base class of actions, and the decorator that makes a dataclass a verb.

_MAX_SHOWN = 80

_A = TypeVar("_A", bound="Action")

VERBS: dict[str, type[Action]] = {}
"""Every verb by its canonical name, in order of declaration."""


class Action:
    """A single browser action: an immutable value.

    Each verb is a frozen dataclass whose field types carry rules. Every action is valid: creating
    one that breaks a rule raises `InvalidInputError`.
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
                    f"{type(self).__name__}.{name} must be {error}; got {_abbreviate(value)}."
                ) from None
            if checked is not value:
                object.__setattr__(self, name, checked)


@dataclass_transform(frozen_default=True)
def verb(name: str) -> Callable[[type[_A]], type[_A]]:
    """Turn a class into a verb: a frozen, slotted dataclass, stored as the record `action/<name>`.

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
    """Return the first line of a verb's docstring."""
    return (cls.__doc__ or "").strip().partition("\n")[0]


def example_of(cls: type[Action]) -> str:
    """Return the example call in a verb's docstring; empty if it has none."""
    _, found, rest = (cls.__doc__ or "").partition("Example: ")
    return rest.partition("\n")[0].strip() if found else ""


def _abbreviate(value: Any) -> str:
    text = ascii(value[:_MAX_SHOWN] if isinstance(value, (str, bytes, list, tuple)) else value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


# The types of action fields, each with its rule.
#
# A field is declared as `ref: Ref`, an `Annotated` type whose metadata is a rule. The rule checks
# the value when the action is created and describes it in JSON Schema, so that the schema given to
# a model always matches what is accepted.
#
# Coordinates are CSS pixels of the viewport, from its top left corner, y down.


def rule_of(annotation: Any) -> Rule:
    """Return the rule in an `Annotated` field type."""
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
Region = Annotated[tuple[float, ...], RegionRule()]
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
