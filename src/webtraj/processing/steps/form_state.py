"""What a form on a page is filled in with, as far as axtree and actions tell."""

from __future__ import annotations

import collections
import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Final

from webtraj.environments.browser.captions import captions_in
from webtraj.environments.browser.observation import Ref, refs_in
from webtraj.judging.masked import is_masked

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
    after: str = ""
    """The text right before it, if it has no name and is no toggle."""
    place: int = 0
    """Which of those of this role, name and text before it, from 0."""

    @property
    def called(self) -> str:
        """What a person calls it; empty if the page does not say."""
        return self.name or self.after

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
    """`on` or nothing for toggles; else what was typed or chosen. Bullets are what is not known."""
    shape: tuple[tuple[str, str, str], ...]
    """What every element of the page is called (its role, its name, for a field without one the
    text before it): two pages of one shape are one form."""

    @property
    def key(self) -> tuple[tuple[Field, str], ...]:
        """What is the same for the same fields with the same values."""
        return tuple(sorted(self.values.items()))

    def is_only(self, field: Field) -> bool:
        """Returns whether its role and what it is called tell a field from all others."""
        alike = (one for one in self.values if one.role == field.role)
        return sum(one.called == field.called for one in alike) == 1


def form_in(axtree: str, typed: Mapping[str, str] | None = None) -> FormState | None:
    """Returns the state of a page's fields; None if the page was cut short, or has none.

    The options of a combobox are left aside: what is chosen is its value.

    Args:
        axtree: The page.
        typed: What fields hold that show bullets, by ref, as `webtraj.judging.masked` finds it.
    """
    if _CUT.search(axtree):
        return None
    elements = refs_in(axtree)
    has_list = any(element.role == "combobox" for element in elements)
    captions = captions_in(axtree) if any(map(_wants_caption, elements)) else {}
    counts: collections.Counter[Field] = collections.Counter()
    values: dict[Field, str] = {}
    for element in elements:
        role = element.role
        if role not in _TYPED and (role not in _TOGGLES or (has_list and role == "option")):
            continue
        kind = Field(role, element.name, _after(element, captions))
        field = dataclasses.replace(kind, place=counts[kind])
        counts[kind] += 1
        value = _value_of(field, element.states)
        values[field] = (typed or {}).get(element.ref, value) if is_masked(value) else value
    if not values:
        return None
    shape = tuple((one.role, one.name, _after(one, captions)) for one in elements)
    return FormState(values, shape)


def _wants_caption(element: Ref) -> bool:
    return element.role in _TYPED and not element.name


def _after(element: Ref, captions: Mapping[str, str]) -> str:
    return captions.get(element.ref, "") if _wants_caption(element) else ""


def _value_of(field: Field, states: tuple[str, ...]) -> str:
    wanted = f"{field.state}=" if field.is_toggle else 'value="'
    if field.is_toggle and field.state in states:
        return "on"
    # What is neither on nor off stands there as checked=mixed, and is told apart.
    found = next((state for state in states if state.startswith(wanted)), "")
    if field.is_toggle or not found:
        return found
    return str(json.loads(found.removeprefix("value=")))
