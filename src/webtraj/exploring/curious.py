"""The curious agent explores a site without a model, trying new elements first.

It clicks elements, fills in and submits forms, and returns to pages that have untried elements. It
stays on the site, types no secrets, and avoids elements whose name suggests an irreversible action
(`AVOIDED`).
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.base import seed_text
from webtraj.agents.random import check_share, random_end
from webtraj.environments import actions
from webtraj.environments import base as environment_lib
from webtraj.environments.browser.observation import Ref, refs_in
from webtraj.exploring.seen import CHANNELS, page_key, site_key

__all__ = ["AVOIDED", "CuriousAgent", "TEXT_ROLES", "text_for"]

# The text to type into a field, by the field's name.
# All values are fictitious: addresses use example.com, telephone numbers are reserved for fiction.
# Passwords are never made up.

TEXT_ROLES = ("textbox", "searchbox", "spinbutton")
"""The roles of fields to type into."""

_SECRET = re.compile(r"passw|secret|\bpin\b|\bcvv\b|\bcvc\b|card|iban|ssn|token", re.IGNORECASE)
_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"e-?mail", ("alex@example.com", "sam@example.com")),
    (r"phone|mobile|\btel", ("202-555-0142", "202-555-0188")),
    (r"zip|post(al)? ?code", ("20001", "94103")),
    (r"date|birthday|\bday\b", ("2027-05-14", "2027-08-02")),
    (r"city|town", ("Springfield", "Riverton")),
    (r"street|address", ("12 Elm Street", "7 Harbour Road")),
    (r"country", ("Canada", "Portugal")),
    (r"first ?name", ("Alex", "Sam")),
    (r"last ?name|surname", ("Miller", "Costa")),
    (r"user|login|nick|name", ("alex", "sam")),
    (r"price|amount|cost|budget", ("50", "100")),
    (r"quantity|number|count|age|guests|people", ("2", "3")),
    (r"message|comment|review|body|text|question|note", ("Thank you, this helped me a lot.",)),
    (r"title|subject", ("A question about delivery",)),
)
_SEARCH = re.compile(r"search|find|query|contains|keyword|filter", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][a-z]{3,}")
_DULL = frozenset((
    "about", "cart", "contact", "from", "help", "home", "login", "main", "menu", "more", "next",
    "page", "previous", "product", "products", "search", "skip", "that", "this", "with", "your",
))  # fmt: skip


def text_for(field: Ref, words: Sequence[str], source: random.Random) -> str:
    """Return the text to type into a field; empty to type nothing.

    >>> import random
    >>> text_for(Ref("4", "textbox", "Your e-mail"), (), random.Random(0)).endswith("@example.com")
    True
    >>> text_for(Ref("5", "textbox", "Password"), (), random.Random(0))
    ''

    Args:
        field: The field.
        words: Names of seen elements, as search terms.
        source: The random source for choices.
    """
    if _SECRET.search(field.name):
        return ""
    if field.role == "searchbox" or _SEARCH.search(field.name):
        return _search_for(words, source)
    for pattern, texts in _KINDS:
        if re.search(pattern, field.name, re.IGNORECASE):
            return source.choice(texts)
    return "2" if field.role == "spinbutton" else _search_for(words, source)


def _search_for(words: Sequence[str], source: random.Random) -> str:
    found = {word.lower() for name in words for word in _WORD.findall(name)} - _DULL
    return source.choice(sorted(found)) if found else "guide"


AVOIDED = (
    "delete", "remove", "erase", "destroy", "deactivate", "unsubscribe", "close account",
    "log out", "logout", "sign out", "pay", "purchase", "buy now", "place order", "order now",
    "book now", "confirm", "donate", "transfer", "withdraw", "send", "publish", "post", "submit",
    "report", "sign up", "register", "create account", "cancel order", "upload", "download",
)  # fmt: skip
"""Words in an element's name that make the agent avoid it."""

_CLICKED = (
    "link", "button", "tab", "menuitem", "checkbox", "radio", "switch", "treeitem", "disclosure",
)  # fmt: skip
_CHOSEN = ("combobox", "listbox")
_BETWEEN_FORMS = ("link", "heading", "banner", "main", "contentinfo", "navigation")
"""Roles of elements that do not appear inside a form."""
_STATES = ("disabled", "readonly")
_MOST_WORDS = 200


@dataclasses.dataclass(frozen=True, slots=True)
class CuriousAgent:
    """An explorer whose choices depend only on seeds, the task and the pages.

    When nothing is left to try, it answers `done`, which ends the episode.
    """

    seed: int = 0
    avoid: tuple[str, ...] = AVOIDED
    """Words in the names of elements to avoid."""
    name: str = "curious"
    ends: float = 0.0
    """The probability, from 0 to 1, of ending the episode at each step, as a floor for tasks; see
    `webtraj.agents.random.random_end`."""

    def __post_init__(self) -> None:
        check_share("curious", "ends", self.ends)

    @property
    def channels(self) -> tuple[str, ...]:
        """The observation channels that the agent and proposers need."""
        return CHANNELS

    def begin_episode(self, environment: environment_lib.Environment) -> _CuriousActor:
        """Return a fresh actor."""
        words = "|".join(map(re.escape, self.avoid)) or "(?!)"
        avoided = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
        return _CuriousActor(random.Random(seed_text(self.seed, environment)), avoided, self.ends)


_Key = tuple[str, str]
"""An element's identity across pages: its role and name."""


@dataclasses.dataclass(slots=True)
class _CuriousActor:
    random: random.Random
    avoided: re.Pattern[str]
    ends: float
    home: str = ""
    """The site to stay on."""
    tried: dict[_Key, int] = dataclasses.field(default_factory=dict)
    """How often each element was tried, on any page."""
    tried_here: set[tuple[str, str, str]] = dataclasses.field(default_factory=set)
    """The elements tried on each page."""
    open: dict[str, set[_Key]] = dataclasses.field(default_factory=dict)
    """The elements left to try on each visited page."""
    urls: dict[str, str] = dataclasses.field(default_factory=dict)
    """A URL of each page."""
    form: str = ""
    """The ref of the last field filled in, while its form is incomplete."""
    words: list[str] = dataclasses.field(default_factory=list)

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        if not isinstance(observation, Mapping) or not {"axtree", "url"} <= observation.keys():
            raise errors.AgentError(
                "The curious agent needs observations with an 'axtree' and a 'url'. Make the "
                "environment with observe=agent.channels."
            )
        if self.ends and self.random.random() < self.ends:
            return trajectory_lib.Decision(action=random_end(observation, self.random))
        url, page = observation["url"], page_key(observation["url"])
        if not self.home:
            self.home = site_key(url)
        if site_key(url) != self.home or observation.get("http_status", 0) >= 400:
            return self._leave("This page is not on the site." if self.home else "Nothing is here.")
        elements = refs_in(observation["axtree"])
        untried = [element for element in elements if self._is_open(element, page)]
        self.open[page], self.urls[page] = set(map(_key, untried)), url
        self.words = _names_of_links(elements)
        if element := self._next_in_form(elements, untried):
            return self._try(element, elements, page, "The form is not done yet.")
        if fresh := [element for element in untried if _key(element) not in self.tried]:
            element = self._first_of_form(self.random.choice(fresh), elements, untried)
            return self._try(element, elements, page, "I have not tried this.")
        if place := self._elsewhere(new=True):
            return self._go(place, "What is left here I have tried on other pages.")
        if untried:
            least = min(self.tried[_key(element)] for element in untried)
            seldom = [element for element in untried if self.tried[_key(element)] == least]
            element = self.random.choice(seldom)
            return self._try(element, elements, page, "I have not tried this here.")
        return self._leave("I have tried everything here.")

    def _is_open(self, element: Ref, page: str) -> bool:
        """Return whether an element may be tried and has not been tried on this page."""
        role = element.role
        if role not in (*_CLICKED, *_CHOSEN, *TEXT_ROLES) or not element.name.strip():
            return False
        if any(state in _STATES for state in element.states):
            return False
        if self.avoided.search(element.name):
            return False
        if role in TEXT_ROLES and not text_for(element, (), self.random):
            return False
        return (page, *_key(element)) not in self.tried_here

    def _next_in_form(self, elements: list[Ref], untried: list[Ref]) -> Ref | None:
        """Return the form's next field or button after the last field filled in."""
        refs = [element.ref for element in elements]
        if not self.form or self.form not in refs:
            return None
        open_refs = {element.ref for element in untried}
        for element in elements[refs.index(self.form) + 1 :]:
            if element.role in _BETWEEN_FORMS:
                return None
            if element.ref in open_refs:
                return element
        return None

    def _first_of_form(self, chosen: Ref, elements: list[Ref], untried: list[Ref]) -> Ref:
        """Return the first untried field of the chosen element's form, or the element itself."""
        if chosen.role not in ("button", *TEXT_ROLES, *_CHOSEN):
            return chosen
        open_refs = {element.ref for element in untried}
        first = chosen
        for element in reversed(elements[: elements.index(chosen)]):
            if element.role in (*_BETWEEN_FORMS, "button"):
                break
            if element.ref in open_refs and element.role in (*TEXT_ROLES, *_CHOSEN):
                first = element
        return first

    def _try(
        self, element: Ref, elements: list[Ref], page: str, why: str
    ) -> trajectory_lib.Decision:
        self.tried[_key(element)] = self.tried.get(_key(element), 0) + 1
        self.tried_here.add((page, *_key(element)))
        action: actions.Action = actions.Click(element.ref)
        self.form = ""
        if element.role in TEXT_ROLES:
            text = text_for(element, self.words, self.random)
            action, self.form = actions.Fill(element.ref, text), element.ref
        elif element.role in _CHOSEN and (options := _options_of(element, elements)):
            chosen = self.random.choice(options)
            action, self.form = actions.SelectOption(element.ref, (chosen,)), element.ref
        elif element.role in ("checkbox", "radio", "switch"):
            self.form = element.ref
        return trajectory_lib.Decision(action=action, thought=f"{why} {_describe(element)}")

    def _elsewhere(self, *, new: bool) -> str:
        """Return the page with the most untried elements; empty if there is none.

        Args:
            new: Whether to count only elements that were not tried on any page.
        """
        counts = {
            page: sum(not new or key not in self.tried for key in keys)
            for page, keys in self.open.items()
        }
        best = max(counts, key=lambda page: counts[page], default="")
        return best if best and counts[best] else ""

    def _leave(self, why: str) -> trajectory_lib.Decision:
        """Go to a page with something left to try, or end the episode."""
        if place := self._elsewhere(new=True) or self._elsewhere(new=False):
            return self._go(place, why)
        return trajectory_lib.Decision(action=actions.Answer("done"), thought=why)

    def _go(self, page: str, why: str) -> trajectory_lib.Decision:
        self.form = ""
        self.open.pop(page)  # Seeing the page adds it again.
        return trajectory_lib.Decision(action=actions.Goto(self.urls[page]), thought=why)


def _describe(element: Ref) -> str:
    return f"({element.role} {element.name!r})"


def _key(element: Ref) -> _Key:
    return element.role, element.name


def _names_of_links(elements: list[Ref]) -> list[str]:
    """Return the names of the links in a page's main part, or of all links if it has none."""
    roles = [element.role for element in elements]
    start = roles.index("main") if "main" in roles else 0
    return [element.name for element in elements[start:] if element.role == "link"][:_MOST_WORDS]


def _options_of(element: Ref, elements: list[Ref]) -> list[str]:
    """Return the unselected options of a select element."""
    start = next(i for i, other in enumerate(elements) if other.ref == element.ref) + 1
    options: list[str] = []
    for other in elements[start:]:
        if other.role == "group":
            continue
        if other.role != "option":
            break
        if "selected" not in other.states and other.name:
            options.append(other.name)
    return options
