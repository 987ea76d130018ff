"""The rules that field values follow: each checks a value, and describes it in JSON Schema."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Protocol
from urllib.parse import urlsplit

from webtraj.environments.actions import keys as keys_lib

__all__ = [
    "MAX_COORDINATE",
    "MAX_SCROLL",
    "MAX_SECONDS",
    "MAX_TEXT",
    "ChoiceRule",
    "FlagRule",
    "KeysRule",
    "ManyRule",
    "NumberRule",
    "OptionalRule",
    "Rule",
    "TextRule",
    "UrlRule",
]

MAX_TEXT = 100_000
"""Characters in the longest text an action carries."""
MAX_COORDINATE = 100_000
"""Beyond any viewport: larger numbers are a model's mistake."""
MAX_SCROLL = 1_000_000
MAX_SECONDS = 100.0
"""The longest wait that Anthropic's computer use asks for."""


class Rule(Protocol):
    """What values a field takes."""

    def check(self, value: Any) -> Any:
        """Returns the value in its canonical type.

        Raises:
          ValueError: If the field does not take it. The message says what it takes.
        """

    def schema(self) -> dict[str, Any]:
        """Returns the rule in JSON Schema."""


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
        return value

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
    """A finite number within bounds, an int where `whole`; bools are no numbers."""

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
        if not self.low <= value <= self.high:  # NaN is not, either.
            raise ValueError(self._what())
        return value if self.digits is None else round(value, self.digits)

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        kind = "integer" if self.whole else "number"
        return {"type": kind, "minimum": self.low, "maximum": self.high}

    def _what(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low:g} to {self.high:g}"


@dataclasses.dataclass(frozen=True, slots=True)
class ChoiceRule:
    """One of a few strings."""

    choices: tuple[str, ...]

    def check(self, value: Any) -> str:
        """See `Rule.check`."""
        if not isinstance(value, str) or value not in self.choices:
            raise ValueError(f"one of {', '.join(self.choices)}")
        return value

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
        return value

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        return {"type": "string", "minLength": 1}


@dataclasses.dataclass(frozen=True, slots=True)
class UrlRule:
    """An absolute http or https URL, or `about:blank`; the empty string too where `optional`.

    What a URL may reach is the environment's network policy. What is refused here could never be a
    page to visit: `javascript:`, `data:`, `file:`, `chrome:` and all else.
    """

    optional: bool = False

    def check(self, value: Any) -> str:
        """See `Rule.check`."""
        what = "an absolute URL with http:// or https:// (or about:blank)"
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise ValueError(what)
        if value == "about:blank" or (self.optional and not value):
            return value
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
        return value

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
class OptionalRule:
    """A value of another rule, or None."""

    rule: Rule

    def check(self, value: Any) -> Any:
        """See `Rule.check`."""
        return None if value is None else self.rule.check(value)

    def schema(self) -> dict[str, Any]:
        """See `Rule.schema`."""
        return self.rule.schema()
