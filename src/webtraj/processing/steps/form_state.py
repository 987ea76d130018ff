"""What a form on a page is filled in with, as far as the axtree tells."""

from __future__ import annotations

import collections
import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Final

from webtraj.environments.browser.observation import refs_in

__all__ = ["EXCLUSIVE", "Field", "FormState", "form_in"]

_CUT = re.compile(r"^ *\.\.\. \d+ more lines$", re.MULTILINE)
_TOGGLES: Final = {
    "checkbox": "checked",
    "radio": "checked",
    "switch": "checked",
    "menuitemcheckbox": "checked",
    "menuitemradio": "checked",
    "option": "selected",
}
"""Roles of what is on or off, and the state that says so."""
_TYPED: Final = ("textbox", "searchbox", "spinbutton", "combobox")
EXCLUSIVE: Final = ("radio", "menuitemradio", "option")
"""Roles of which one goes off when another goes on."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Field:
    """One element of a form."""

    role: str
    name: str
    place: int = 0
    """Which of those of this role and name, from 0."""

    @property
    def is_toggle(self) -> bool:
        """Whether it is on or off, and not typed or chosen."""
        return self.role in _TOGGLES

    @property
    def state(self) -> str:
        """The state that says that it is on; empty if it is no toggle."""
        return _TOGGLES.get(self.role, "")


@dataclasses.dataclass(frozen=True, slots=True)
class FormState:
    """All fields of a page, and what they hold."""

    values: Mapping[Field, str]
    """`on` or nothing for toggles; else what was typed or chosen."""
    shape: tuple[tuple[str, str], ...]
    """Role and name of every element of the page: two pages of one shape are one form."""

    @property
    def key(self) -> tuple[tuple[Field, str], ...]:
        """What is the same for the same fields with the same values."""
        return tuple(sorted(self.values.items()))

    def is_only(self, field: Field) -> bool:
        """Returns whether its role and name tell a field from all others."""
        return dataclasses.replace(field, place=1) not in self.values and field.place == 0


def form_in(axtree: str) -> FormState | None:
    """Returns the state of a page's fields; None if the page was cut short, or has none.

    The options of a combobox are left aside: what is chosen is its value.
    """
    if _CUT.search(axtree):
        return None
    elements = refs_in(axtree)
    has_list = any(element.role == "combobox" for element in elements)
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    values: dict[Field, str] = {}
    for element in elements:
        role = element.role
        if role not in _TYPED and (role not in _TOGGLES or (has_list and role == "option")):
            continue
        field = Field(role, element.name, counts[role, element.name])
        counts[role, element.name] += 1
        values[field] = _value_of(field, element.states)
    if not values:
        return None
    return FormState(values, tuple((element.role, element.name) for element in elements))


def _value_of(field: Field, states: tuple[str, ...]) -> str:
    wanted = f"{field.state}=" if field.is_toggle else 'value="'
    if field.is_toggle and field.state in states:
        return "on"
    # What is neither on nor off stands there as checked=mixed, and is told apart.
    found = next((state for state in states if state.startswith(wanted)), "")
    if field.is_toggle or not found:
        return found
    return str(json.loads(found.removeprefix("value=")))
