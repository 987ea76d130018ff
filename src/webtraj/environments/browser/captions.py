"""What a field is called that has no name: the text that stands right before it on the page.

Many forms have texts beside their fields that belong to none as far as the page says (a `<label>`
without `for`, a cell of a table). A person reads them as names; so do goals, rules and prompts.
"""

from __future__ import annotations

from typing import Final

from webtraj.environments.browser.observation import refs_in, text_in

__all__ = ["FIELDS", "captions_in"]

FIELDS: Final = frozenset({"textbox", "searchbox", "spinbutton", "combobox", "listbox", "slider"})
"""Roles of what has its caption before it. Those of boxes to tick stand after them."""

_SAYING: Final = frozenset(
    {
        "generic", "paragraph", "strong", "emphasis", "heading", "label", "term", "cell",
        "gridcell", "rowheader",
    }
)  # fmt: skip
"""Roles of elements whose name is a text on the page. That of a column stands above, not before."""
_LONGEST = 60
_MARKS = " :*\u2013-"
_SENTENCE = (".", "!")


def captions_in(axtree: str) -> dict[str, str]:
    r"""Returns the captions of a page's fields by their refs.

    A caption is the text, or the element that is nothing but text, that comes right before a field:
    no other field, control or picture with a name between them. Colons and asterisks at its end do
    not belong to it. A text of more than 60 characters, or that ends as a sentence does, is none.

    >>> captions_in('text "User name:"\n[1] textbox\n[2] generic "City"\n[3] textbox\n[4] textbox')
    {'1': 'User name', '3': 'City'}

    Args:
        axtree: The page, as `webtraj.environments.browser.observation` describes it.
    """
    found: dict[str, str] = {}
    before = around = ""
    for line in axtree.splitlines():
        text = text_in(line)
        if text is not None:
            before = text
            continue
        for element in refs_in(line):
            if element.role in FIELDS and (caption := _caption_of(before)):
                found[element.ref] = caption
            if element.role not in _SAYING:
                around = element.name
                before = "" if element.name or element.role in FIELDS else before
            elif element.name and element.name != around:  # Else it is the text of what is around.
                before = element.name
    return found


def _caption_of(text: str) -> str:
    text = text.strip()
    if len(text) > _LONGEST or text.endswith(_SENTENCE):
        return ""
    return text.rstrip(_MARKS)
