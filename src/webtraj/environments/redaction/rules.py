"""`RedactionRules`: what must not be recorded, told by its shape or by its place in a page."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from webtraj import errors
from webtraj.environments.redaction import guarded_regexes
from webtraj.environments.redaction.patterns import PATTERNS

__all__ = ["ELEMENTS", "NAME", "RedactionRules"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""What may name a secret or a rule."""

ELEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "password": "input[type=password], [autocomplete$=current-password],"
        " [autocomplete$=new-password]",
        "one_time_code": "[autocomplete~=one-time-code]",
        "payment": "[autocomplete~=cc-name], [autocomplete~=cc-given-name],"
        " [autocomplete~=cc-family-name], [autocomplete~=cc-additional-name],"
        " [autocomplete~=cc-number], [autocomplete~=cc-csc], [autocomplete~=cc-exp],"
        " [autocomplete~=cc-exp-month], [autocomplete~=cc-exp-year], [autocomplete^=cc-]",
        "contact": "input[type=email], input[type=tel], [autocomplete~=email],"
        " [autocomplete~=tel], [autocomplete~=name], [autocomplete~=street-address],"
        " [autocomplete~=address-line1], [autocomplete~=address-line2],"
        " [autocomplete~=postal-code], [autocomplete~=bday]",
        "marked": "[data-private], [data-sensitive], [data-hj-suppress], [data-sl=mask],"
        " .ph-no-capture, .fs-mask, .fs-exclude, .rr-mask, .rr-block, .sentry-mask, .sentry-block",
    }
)
"""Ready-made CSS selectors by name; `marked` is what sites mark so for session-replay tools."""

_UNKNOWN = "There are no {kind} {unknown}; ready-made ones are {known}. Give your own as {own}."
_BAD_NAME = (
    "{name!r:.100} cannot name a rule: expected up to 64 characters of A-Z a-z 0-9 . _ -, the "
    "first a letter or digit."
)


@dataclasses.dataclass(frozen=True, slots=True)
class RedactionRules:
    r"""What is replaced by `<secret:name>` before it is recorded, and counted by that name.

    Nothing is, unless it is asked for:

    >>> from webtraj.environments.redaction import Redactor
    >>> rules = RedactionRules(patterns=("email",), regexes={"badge": r"\bB-\d{6}\b"})
    >>> Redactor(rules=rules).redact({"text": "anna@example.com has badge B-123456"})
    {'text': '<secret:email> has badge <secret:badge>'}

    Raises:
        InvalidInputError: There is no such ready-made rule, or a name or a regex is no good.
    """

    patterns: Iterable[str] = ()
    """Names of ready-made patterns (see `webtraj.environments.redaction.patterns`)."""
    regexes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Own regexes by name, in Python's syntax. The `regex` package runs them."""
    elements: Iterable[str] = ()
    """Names of ready-made selectors (see `ELEMENTS`), for environments with a browser."""
    selectors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Own CSS selectors by name. Redacted is all that is in an element."""
    seconds: float = 1.0
    """How long the own regexes may take for one text. One that takes longer is not recorded."""

    def __post_init__(self) -> None:
        for field, known, own in (
            ("patterns", PATTERNS, "`regexes`"),
            ("elements", ELEMENTS, "`selectors`"),
        ):
            given = getattr(self, field)
            names = tuple(dict.fromkeys((given,) if isinstance(given, str) else given))
            unknown = [name for name in names if name not in known]
            if unknown:
                raise errors.InvalidInputError(
                    _UNKNOWN.format(kind=field, unknown=unknown, known=", ".join(known), own=own)
                )
            object.__setattr__(self, field, names)
        for field in ("regexes", "selectors"):
            rules = dict(getattr(self, field))
            object.__setattr__(self, field, MappingProxyType(rules))
            for name, rule in rules.items():
                if not isinstance(name, str) or not NAME.fullmatch(name):
                    raise errors.InvalidInputError(_BAD_NAME.format(name=name))
                if not isinstance(rule, str) or not rule.strip():
                    raise errors.InvalidInputError(
                        f"The rule {name!r} in `{field}` is {rule!r:.100}; expected text."
                    )
        for name, regex in self.regexes.items():
            _check_regex(name, regex)
        if not (isinstance(self.seconds, (int, float)) and 0 < self.seconds <= 60):
            raise errors.InvalidInputError(
                f"seconds={self.seconds!r} is no limit; expected a number above 0, at most 60."
            )

    @classmethod
    def of(cls, value: RedactionRules | Mapping[str, Any] | Iterable[str] | None) -> RedactionRules:
        """Returns the rules that `value` asks for.

        Args:
            value: Rules; a mapping of their fields, as a configuration file has it; names of
                ready-made patterns; or None for no rules.

        Raises:
            InvalidInputError: They are no such rules.
        """
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            return cls(patterns=value)  # type: ignore[arg-type]
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(str(name) for name in value if name not in known)
        if unknown:
            raise errors.InvalidInputError(
                f"Redaction has no {', '.join(unknown)}; expected {', '.join(known)}."
            )
        return cls(**value)

    def merged(self, other: RedactionRules) -> RedactionRules:
        """Returns rules that redact what these or others do.

        Raises:
            InvalidInputError: Both have a rule of one name that is not the same.
        """
        for field in ("regexes", "selectors"):
            mine, theirs = getattr(self, field), getattr(other, field)
            for name in mine.keys() & theirs.keys():
                if mine[name] != theirs[name]:
                    raise errors.InvalidInputError(
                        f"Two rules of `{field}` are called {name!r}: {mine[name]!r:.100} and "
                        f"{theirs[name]!r:.100}. Give them names of their own."
                    )
        return RedactionRules(
            patterns=(*self.patterns, *other.patterns),
            regexes={**self.regexes, **other.regexes},
            elements=(*self.elements, *other.elements),
            selectors={**self.selectors, **other.selectors},
            seconds=max(self.seconds, other.seconds),
        )

    @property
    def names(self) -> frozenset[str]:
        """What its redactions are called."""
        return frozenset((*self.patterns, *self.regexes, *self.elements, *self.selectors))

    @property
    def selectors_by_name(self) -> dict[str, str]:
        """All CSS selectors, ready-made and own."""
        return {**{name: ELEMENTS[name] for name in self.elements}, **self.selectors}


def _check_regex(name: str, regex: str) -> None:
    try:
        compiled = re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        raise errors.InvalidInputError(
            f"The regex {name!r} is {regex!r:.200}, which is none: {error}."
        ) from error
    guarded_regexes.compiled(regex)
    if compiled.match(""):
        raise errors.InvalidInputError(
            f"The regex {name!r} is {regex!r:.200}, which is found in every text, since it may be "
            "empty; expected one that needs at least one character."
        )
