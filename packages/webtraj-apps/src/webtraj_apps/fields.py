"""Fields of an application's forms: how an oracle sets each, and which column keeps it.

An application has one table of fields for each kind of row that tasks edit. Its `edit(row, ...)`
derives both the oracle and the expected change from that table, so a template says each value once.
What a goal says stays in the template.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from webtraj.environments.browser.oracles import Step, check

__all__ = ["Field", "Typed", "columns_of", "set_fields", "tick"]


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field of a form."""

    selector: str
    """The CSS selector of its element."""
    put: Callable[[str, str], Step]
    """How it is set: `fill`, `select` or `tick`."""
    column: str = ""
    """The column that keeps its value; the field's name if empty."""


@dataclasses.dataclass(frozen=True, slots=True)
class Typed:
    """A value that the row keeps in another form than it is typed."""

    text: str
    """What the oracle types or chooses."""
    kept: Any
    """The value of the column, or a test of it."""


def tick(selector: str, value: str) -> Step:
    """Tick a box, whose value is then `1`."""
    return check(selector)


def set_fields(fields: Mapping[str, Field], values: Mapping[str, Any]) -> tuple[Step, ...]:
    """Set fields of the form that is open.

    Args:
        fields: The fields by name.
        values: The new values by field: texts, or `Typed`.
    """
    return tuple(
        fields[name].put(fields[name].selector, value.text if isinstance(value, Typed) else value)
        for name, value in values.items()
    )


def columns_of(fields: Mapping[str, Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the expected value, or its test, of each column that the fields set."""
    return {
        fields[name].column or name: value.kept if isinstance(value, Typed) else value
        for name, value in values.items()
    }
