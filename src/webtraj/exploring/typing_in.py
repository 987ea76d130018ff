"""What an explorer without a model types into a field, by what the field is called.

Nothing here is anybody's: addresses are of example.com, telephone numbers of those kept free for
fiction. A password is never made up.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from webtraj.environments.browser.observation import Ref

__all__ = ["TEXT_ROLES", "text_for"]

TEXT_ROLES = ("textbox", "searchbox", "spinbutton")
"""The roles of fields that are typed into."""

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
    """Returns what to type into a field; empty if nothing should be.

    >>> import random
    >>> text_for(Ref("4", "textbox", "Your e-mail"), (), random.Random(0)).endswith("@example.com")
    True
    >>> text_for(Ref("5", "textbox", "Password"), (), random.Random(0))
    ''

    Args:
        field: The field.
        words: Names of elements that were seen, which a search may be for.
        source: Chooses among several.
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
