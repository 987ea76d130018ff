"""Fields of an application's forms: how an oracle sets each, and which column keeps it.

An application has one table of fields for each kind of row that tasks edit. Its `edit(row, ...)`
derives both the oracle and the expected change from that table, so a template says each value once.
What a goal says stays in the template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from webtraj.environments.browser.oracles import Step, check

__all__ = ["Field", "columns_of", "set_fields", "tick"]


class Field(NamedTuple):
    """A field of a form."""

    put: Callable[[str, str], Step]
    """How it is set: `fill`, `select` or `tick`."""
    selector: str
    """The CSS selector of its element."""
    column: str = ""
    """The column that keeps its value; the field's name if empty."""
    kept: Callable[[Any], Any] = lambda value: value
    """Return the expected value of the column, or a test of it, such as `on_day`."""


def tick(selector: str, value: str) -> Step:
    """Tick a box."""
    return check(selector)


def set_fields(fields: Mapping[str, Field], values: Mapping[str, Any]) -> tuple[Step, ...]:
    """Set fields of the form that is open, by name."""
    return tuple(
        fields[name].put(fields[name].selector, str(value)) for name, value in values.items()
    )


def columns_of(fields: Mapping[str, Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the expected values of the columns that the fields set, or tests of them."""
    return {fields[name].column or name: fields[name].kept(value) for name, value in values.items()}
