"""Options of steps: plain data, checked once and returned as `settings`."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from webtraj import errors

__all__ = [
    "PlainStep",
    "check_flags",
    "check_number",
    "check_wording",
    "choice",
    "matches",
    "put",
    "read_words",
    "settings_of",
    "fill_in",
    "words",
]

_NOT_SETTINGS = ("client", "judge", "secrets")
"""Fields that are not plain data or must not be recorded."""


class PlainStep:
    """A step that is a frozen dataclass, whose fields are its options."""

    __slots__ = ()
    needs_model: ClassVar[bool] = False

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings, as plain data."""
        return settings_of(self)


def put(step: Any, **values: Any) -> None:
    """Set fields of a frozen step while it is made."""
    for name, value in values.items():
        object.__setattr__(step, name, value)


def read_words(step: Any, *names: str) -> None:
    """Turn options that are one word or several into tuples.

    Raises:
        InvalidInputError: One is neither.
    """
    put(step, **{name: words(step.name, name, getattr(step, name)) for name in names})


def settings_of(step: Any) -> dict[str, Any]:
    """Return a step's settings as plain data: its fields, except clients and secrets."""
    return {
        field.name: _plain(getattr(step, field.name))
        for field in dataclasses.fields(step)
        if field.init and field.name not in _NOT_SETTINGS
    }


def words(step: str, option: str, value: Any) -> tuple[str, ...]:
    """Return an option that is one word or several, as a tuple.

    >>> words("filter-site", "sites", "a.org"), words("filter-site", "sites", ["a", "b"])
    (('a.org',), ('a', 'b'))

    Raises:
        InvalidInputError: It is neither.
    """
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Iterable) and not isinstance(value, Mapping):
        found = tuple(value)
        if all(isinstance(word, str) for word in found):
            return found
    raise errors.InvalidInputError(
        f"{step}: {option} is {value!r:.200}; expected a text or a list of texts."
    )


def choice(step: str, option: str, value: Any, known: Iterable[str]) -> None:
    """Check that an option is one of the allowed words.

    Raises:
        InvalidInputError: It is none of them.
    """
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        raise errors.InvalidInputError(
            f"{step}: {option} is {value!r:.200}; expected one of {', '.join(known)}."
        )


def check_flags(step: Any) -> None:
    """Check that options of type bool are true or false.

    Raises:
        InvalidInputError: One is something else.
    """
    for field in dataclasses.fields(step):
        if field.type not in (bool, "bool"):
            continue
        value = getattr(step, field.name)
        if not isinstance(value, bool):
            raise errors.InvalidInputError(
                f"{step.name}: {field.name} is {value!r:.200}; expected true or false."
            )


def check_number(
    step: str,
    option: str,
    value: Any,
    *,
    least: float,
    most: float = float("inf"),
    whole: bool = True,
) -> None:
    """Check that an option is a number in range.

    Raises:
        InvalidInputError: It is not a number, or out of range.
    """
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        kind = "a whole number" if whole else "a number"
        upto = "" if most == float("inf") else f" and at most {most}"
        raise errors.InvalidInputError(
            f"{step}: {option} is {value!r:.200}; expected {kind} of at least {least}{upto}."
        )


def check_wording(step: str, option: str, value: Any, blanks: Iterable[str]) -> None:
    """Check that an option is a text with all of its placeholders.

    Raises:
        InvalidInputError: It is not a text, or lacks a placeholder.
    """
    blanks = tuple(blanks)
    if not isinstance(value, str) or any(blank not in value for blank in blanks):
        raise errors.InvalidInputError(
            f"{step}: {option} is {value!r:.200}; expected a text with {' and '.join(blanks)} in "
            "it."
        )


def fill_in(wording: str, words: Mapping[str, str]) -> str:
    """Return a text with its placeholders filled in. Placeholders within values stay.

    >>> fill_in("Click {name}.", {"name": "{role}", "role": "x"})
    'Click {role}.'
    """
    blanks = "|".join(map(re.escape, words))
    return re.sub(rf"\{{({blanks})\}}", lambda found: words[found[1]], wording)


def matches(text: str, patterns: Iterable[str]) -> bool:
    """Return whether a text matches any of some glob patterns, case-sensitively.

    >>> matches("miniwob/click-tab", ["miniwob/click-*", "web/*"])
    True
    """
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_plain(item) for item in value]
        return sorted(items, key=str) if isinstance(value, (set, frozenset)) else items
    return value
