"""What a page's elements and texts are called, in a few words each."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator

from webtraj.environments.browser.captions import captions_in
from webtraj.environments.browser.observation import Ref, refs_in, text_in

__all__ = ["Item", "color_name", "items_of"]

_LONGEST_NAME = 6
"""Words of a name or text that are told; the others hardly ever tell elements apart."""
_EDITABLE = frozenset({"textbox", "searchbox", "spinbutton"})
_UNSAID_ROLES = frozenset({"generic", "paragraph", "strong", "emphasis"})
_BULLET = "\u2022"
_UNSAID_STATES = ("level", "scrollable", "image")
_WORD = re.compile(r"\S+")
_NUMBERS = re.compile(r"\d+")

# The basic colours of CSS, and the few more that everybody has a word for.
_COLORS = {
    "black": (0, 0, 0),
    "gray": (128, 128, 128),
    "white": (255, 255, 255),
    "red": (255, 0, 0),
    "maroon": (128, 0, 0),
    "orange": (255, 165, 0),
    "brown": (165, 42, 42),
    "yellow": (255, 255, 0),
    "olive": (128, 128, 0),
    "lime": (0, 255, 0),
    "green": (0, 128, 0),
    "teal": (0, 128, 128),
    "cyan": (0, 255, 255),
    "blue": (0, 0, 255),
    "navy": (0, 0, 128),
    "purple": (128, 0, 128),
    "magenta": (255, 0, 255),
    "pink": (255, 192, 203),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """A line of the page."""

    words: str
    """What it is called: role, name and states."""
    name: str = ""
    """The name alone, not shortened; of a field without one, the text right before it."""
    ref: str = ""
    """The element's ref; empty for a text, which cannot be acted on."""
    editable: bool = False
    """Whether it can be typed into."""


def items_of(axtree: str) -> list[Item]:
    r"""Returns the items of a page, in its order.

    A field without a name is called by the text right before it. An element that only repeats the
    name of the one before it is left out: it lies inside.

    >>> [item.words for item in items_of('[1] tab "A" selected\n  [2] generic "A"\ntext "Hi"')]
    ['tab A selected', 'Hi']
    >>> [item.words for item in items_of('text "City:"\n[1] textbox value="Bonn"')]
    ['City:', 'textbox City has Bonn']

    Args:
        axtree: The page, as `webtraj.environments.browser.observation` describes it.
    """
    return list(_items(axtree))


def _items(axtree: str) -> Iterator[Item]:
    captions = captions_in(axtree)
    around = ""
    for line in axtree.splitlines():
        text = text_in(line)
        if text is not None:
            yield Item(_shortened(text))
            continue
        for element in refs_in(line):
            if element.role == "generic" and element.name and element.name == around:
                continue
            around = element.name
            editable = element.role in _EDITABLE
            name = element.name or captions.get(element.ref, "")
            yield Item(_called(element, name), name, element.ref, editable)


def _called(element: Ref, name: str) -> str:
    said = [] if element.role in _UNSAID_ROLES else [element.role]
    if name:
        said.append(_shortened(name))
    said += [state for state in map(_state, element.states) if state]
    return " ".join(said) or element.role


def _state(state: str) -> str:
    name, _, value = state.partition("=")
    if name in _UNSAID_STATES:
        return ""
    if name in ("color", "fill"):
        return color_name(json.loads(value))
    if name == "value":
        held = json.loads(value)
        # How long a password is tells nothing that would have to be learned.
        return f"has {_BULLET if set(held) == {_BULLET} else _shortened(held)}"
    if name == "expanded":
        return "open" if value == "true" else "shut"
    return name


def color_name(css: str) -> str:
    """Returns the nearest colour that has an everyday name, by distance in RGB.

    >>> color_name("rgb(250, 250, 10)"), color_name("currentcolor")
    ('yellow', 'currentcolor')
    """
    found = _NUMBERS.findall(css)
    if not css.startswith("rgb") or len(found) < len("rgb"):
        return css
    red, green, blue = map(int, found[:3])
    return min(
        _COLORS,
        key=lambda name: sum(
            (one - other) ** 2 for one, other in zip(_COLORS[name], (red, green, blue), strict=True)
        ),
    )


def _shortened(text: str) -> str:
    return " ".join(_WORD.findall(text)[:_LONGEST_NAME])
