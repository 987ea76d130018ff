"""A page in short: its elements and texts, each in a few words, with a place where that is known.

For prompts of very small models (`two_cores.pointing`). An element that only holds others has
no line of its own: the first element inside it stands for both.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from webtraj.environments.browser.observation import Ref, captions_in, refs_in, text_in

__all__ = ["Box", "Item", "color_name", "items_of", "shortened"]

_LONGEST_NAME = 6
"""The most words of a name or text; more rarely help to tell elements apart."""
_EDITABLE = frozenset({"textbox", "searchbox", "spinbutton"})
_CHOSEN_FROM = frozenset({"combobox", "listbox"})
_UNSAID_ROLES = frozenset({"generic", "paragraph", "strong", "emphasis"})
_HOLDERS = frozenset(
    {
        "generic", "paragraph", "group", "form", "table", "rowgroup", "row", "cell", "gridcell",
        "list", "listitem", "img",
    }
)  # fmt: skip
"""Roles that say nothing about an element without a name and states that holds others."""
_INERT = frozenset({"generic", "paragraph", "heading", "img"})
"""Roles of elements that seldom take clicks themselves; a plain holder has a line if it does."""
_REPEATING = frozenset({"cell", "gridcell", "rowheader", "columnheader", "listitem"})
"""Roles whose name is that of the control inside them."""
_BULLET = "\u2022"
_UNSAID_STATES = ("level",)
_WORD = re.compile(r"\S+")
_NUMBERS = re.compile(r"\d+")
_ICON = re.compile(r"([A-Za-z]+(?:[-_][A-Za-z]+)*)\.\w+")
"""The file name of a single icon; `ui-icons_444444_256x240.png` has them all."""

# The basic colours of CSS, and a few more with everyday names.
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

Box = tuple[float, float, float, float]
"""x, y, width and height in CSS pixels of the viewport."""


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """A line of the page."""

    words: str
    """Its description: role, name and states."""
    name: str = ""
    """The full name; for an unnamed field, the text right before it."""
    ref: str = ""
    """The element's ref; empty for text, which cannot be acted on."""
    editable: bool = False
    """Whether text can be typed into it."""
    text: str = ""
    """What a person would copy from it: a field's value, else its name."""
    read_only: bool = False
    """Whether it is a field that does not take text from the keyboard, as many date fields."""
    scrollable: bool = False
    """Whether it can be scrolled."""
    chosen_from: str = ""
    """For an option of a list: the list's ref."""
    selected: bool = False
    """For an option of a list: whether it is chosen."""
    prose: bool = False
    """Whether it is text rather than a control."""
    box: Box | None = None
    """Its box, if it is known and in the viewport."""
    without_line: tuple[tuple[str, Box | None], ...] = ()
    """Refs and boxes of elements that have no line of their own, and that this one stands for."""

    @property
    def refs(self) -> tuple[str, ...]:
        """The refs that mean this element."""
        return (self.ref, *(ref for ref, _ in self.without_line))

    @property
    def boxes(self) -> list[Box]:
        """The known boxes of the elements that it stands for."""
        return [box for box in (self.box, *(box for _, box in self.without_line)) if box]


def items_of(axtree: str, boxes: Mapping[str, Any] | None = None) -> list[Item]:
    r"""Return the items of a page, in page order.

    An unnamed field takes the text right before it as its name. An element that only repeats the
    name of the one before it is left out, as it lies inside; so is one that only holds others.

    >>> [item.words for item in items_of('[1] tab "A" selected\n  [2] generic "A"\ntext "Hi"')]
    ['tab A selected', 'Hi']
    >>> [item.words for item in items_of('text "City:"\n[1] textbox value="Bonn"')]
    ['City:', 'textbox City has Bonn']
    >>> [item.refs for item in items_of('[1] row\n  [2] cell "5"\n    [3] link "5"')]
    [('3', '1', '2')]

    Args:
        axtree: The page, as described by `webtraj.environments.browser.observation`.
        boxes: The channel `boxes`, if it was observed.
    """
    places = {} if boxes is None else _boxes(boxes)
    captions = captions_in(axtree)
    lines = _lines(axtree)
    items: list[Item] = []
    held: list[tuple[int, Ref]] = []
    lists: list[tuple[int, str]] = []
    last: Ref | None = None
    for at, ((indent, line), (inside, after)) in enumerate(itertools.pairwise([*lines, (0, "")])):
        if isinstance(line, str):
            items.append(Item(shortened(line), text=line, prose=True))
            continue
        if last is not None and line.role == "generic" and line.name and line.name == last.name:
            same = next(n for n in reversed(range(len(items))) if last.ref in items[n].refs)
            also = (*items[same].without_line, (line.ref, places.get(line.ref)))
            items[same] = dataclasses.replace(items[same], without_line=also)
            continue
        if inside > indent and _only_holds(line, after):
            held.append((indent, line))
            continue
        last = line
        lists = [each for each in lists if each[0] < indent]
        holders = [holder for _, holder in held]
        taker = _taker(held, line, next((n for n, _ in lines[at + 1 :] if n <= indent), 0))
        items.append(
            dataclasses.replace(
                _item(line, line.name or captions.get(line.ref, "")),
                ref=taker,
                chosen_from=lists[-1][1] if line.role == "option" and lists else "",
                box=places.get(taker),
                without_line=tuple(
                    (each.ref, places.get(each.ref))
                    for each in (*holders, line)
                    if each.ref != taker
                ),
            )
        )
        held = []
        if line.role in _CHOSEN_FROM:
            lists.append((indent, line.ref))
    return items


def _boxes(boxes: Mapping[str, Any]) -> dict[str, Box]:
    return {
        str(ref): (float(x), float(y), float(width), float(height))
        for ref, (x, y, width, height) in zip(boxes["refs"], boxes["boxes"], strict=True)
    }


def _taker(holders: Sequence[tuple[int, Ref]], element: Ref, follows: int) -> str:
    """Return the ref to act on: that of a plain element that only holds one which takes no clicks.

    Args:
        holders: Elements around this one and their indents, from the outside.
        element: The element.
        follows: The indent of what comes after it. The middle of an element that holds that too is
            elsewhere.
    """
    plain = [one.ref for indent, one in holders if one.role == "generic" and follows <= indent]
    return plain[0] if plain and element.role in _INERT else element.ref


def _item(element: Ref, name: str) -> Item:
    states = dict(state.partition("=")[::2] for state in element.states)
    return Item(
        words=_called(element, name),
        name=name,
        ref=element.ref,
        editable=element.role in _EDITABLE and not states.keys() & {"readonly", "disabled"},
        read_only=element.role in _EDITABLE and "readonly" in states,
        text=json.loads(states["value"]) if states.get("value") else element.name,
        scrollable="scrollable" in states,
        selected="selected" in states,
        prose=element.role == "paragraph" or "multiline" in states,
    )


def _lines(axtree: str) -> list[tuple[int, Ref | str]]:
    """Return each element or text with its indent."""
    found: list[tuple[int, Ref | str]] = []
    for line in axtree.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        text = text_in(line)
        if text is not None:
            found.append((indent, text))
        else:
            found += [(indent, element) for element in refs_in(line)]
    return found


def _only_holds(element: Ref, first: Ref | str) -> bool:
    """Return whether an element says nothing that what is inside does not say."""
    if isinstance(first, str):
        return False
    if not element.name:
        return element.role in _HOLDERS and not element.states
    return element.role in _REPEATING and first.name == element.name and first.role != "generic"


def _called(element: Ref, name: str) -> str:
    said = [] if element.role in _UNSAID_ROLES else [element.role]
    if name:
        said.append(shortened(name))
    said += [state for state in map(_state, element.states) if state]
    return " ".join(said) or element.role


def _state(state: str) -> str:
    name, _, value = state.partition("=")
    if name in _UNSAID_STATES:
        return ""
    if name == "image":
        icon = _ICON.fullmatch(json.loads(value))
        return icon[1] if icon else ""
    if name in ("color", "fill"):
        return color_name(json.loads(value))
    if name == "value":
        held = json.loads(value)
        # The length of a password is no useful information.
        return f"has {_BULLET if set(held) == {_BULLET} else shortened(held)}"
    if name == "expanded":
        return "open" if value == "true" else "shut"
    return name


def color_name(css: str) -> str:
    """Return the nearest colour with an everyday name, by RGB distance.

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


def shortened(text: str, words: int = _LONGEST_NAME) -> str:
    """Return the first words of a text."""
    return " ".join(_WORD.findall(text)[:words])
