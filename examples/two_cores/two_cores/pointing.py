"""Pointing: agents for models too small for an ordinary prompt.

A prompt describes the page in a few tokens an element, and the model answers with two: an element,
and what to do with it (click it, type a word into it, drag it to another element, scroll it). That
a web agent can work by clicking elements and typing words of the goal is from DOM-Q-Net (Jia, Kiros
and Ba 2019). Elements and words are named by tokens shuffled anew for each prompt, so a model
cannot memorize positions and has to read.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import random
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from two_cores.local_model import LocalModel
from two_cores.page_items import Box, Item, color_name, items_of
from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.base import make_given_up_error, seed_text
from webtraj.agents.catalog import AgentKind
from webtraj.agents.models.base import Message, ModelClient, Sampling
from webtraj.agents.models.messages import without_markup
from webtraj.agents.options import read_options
from webtraj.environments import base as environment_lib
from webtraj.environments.actions import (
    Action,
    Answer,
    Check,
    Click,
    ClickAt,
    DragAt,
    DragTo,
    Fill,
    Focus,
    Hover,
    InvalidAction,
    Press,
    ReportInfeasible,
    Scroll,
    SelectOption,
    TypeInto,
    Uncheck,
)

__all__ = [
    "ACT",
    "ANSWERS",
    "CHANNELS",
    "CLICK",
    "ELEMENTS",
    "Item",
    "MARKERS",
    "OPTIONS",
    "NUMBERS",
    "PLACES",
    "POINTING",
    "Pointer",
    "PointingAgent",
    "PointingDialect",
    "Prompt",
    "USUAL",
    "VERBS",
    "WORDS",
    "check_elements",
    "color_name",
    "cut",
    "items_of",
    "make_pointing_agent",
    "make_prompt",
]

# The prompt of a pointing agent, and the meaning of its replies.
#
#     <task> Click on Okay <page> button no <was> <e31> button Okay <same> <e4> <did> button no
#         <act>
#
# The task comes first, and an element's token after its words, so a small model has read the task
# before the candidates, and each candidate before its token. (In the study behind this, on 16
# MiniWoB++ tasks, this order alone learned almost twice as fast as with the task at the end.) If
# something can be typed, the goal's words have tokens too, and so have the words of texts::
#
#     <task> Enter <w7> Bob <w2> and press Submit <page> textbox <e9> button Submit <e3> <act>
#
# Quoted text counts as one word, however long it is, and so does a time of day. If the goal speaks
# of upper or lower case, quoted text is there in both.
#
# Marks show what a small model would take long to learn: `<same>` follows an element whose whole
# name is in the goal, `<some>` one that shares a word with it (a text field also `text` or
# `textarea`, as HTML calls it), `<was>` one that was acted on before. They compare letters only,
# like a search in a page, and numbers without leading zeros. Workflow-guided exploration (Liu et
# al. 2018) and DOM-Q-Net give their networks such alignments of goal and page too.
#
# If boxes were observed, an element's place comes before its token: column and row of its middle in
# a grid of 16 by 16 over all that has a box, and the power of two of its height in pixels; or
# `<off>` where it has no box in the viewport::
#
#     circle red <x3> <y9> <z4> <e7>
#
# The reply is two tokens: the element, and what to do with it.
#
# * `<w0>` clicks it, or chooses it if it is an option of a list.
# * A word is typed into it. So is a number, or the text of another element.
# * Another element, where nothing can be typed, is where to drag it.
# * A number, where nothing can be typed, presses the right or left arrow as often; in a read-only
#   field, as date pickers have, Page Down or Page Up.
# * A verb: see `VERBS`.
#
# Or a column and a row: a click at that place. Or `<answer>` and what to answer, which ends the
# episode: `<w0>` for `done`, a word, a number, the text of an element; `<no>` reports that the task
# cannot be done.

ELEMENTS: Final = tuple(f"<e{number}>" for number in range(96))
"""The tokens of elements; a page's further elements are not shown."""
CLICK: Final = "<w0>"
"""The token for no word."""
WORDS: Final = tuple(f"<w{number}>" for number in range(1, 65))
"""The tokens of words; further words cannot be typed."""
USUAL: Final = (48, 32)
"""How many elements and words most prompts have at most. These have the first tokens only, which a
model sees more often; models of earlier versions know no others."""
_USUAL_ELEMENTS, _USUAL_WORDS = USUAL
NUMBERS: Final = tuple(f"<n{number}>" for number in range(-50, 100))
"""The tokens of numbers."""
_SMALL: Final = tuple(f"<n{number}>" for number in range(21))
_LESS: Final = tuple(f"<n{number}>" for number in range(-20, 0))
_GRID: Final = 16
_COLUMNS: Final = tuple(f"<x{number}>" for number in range(_GRID))
_ROWS: Final = tuple(f"<y{number}>" for number in range(_GRID))
_HEIGHTS: Final = tuple(f"<z{number}>" for number in range(12))
_OFF: Final = "<off>"
PLACES: Final = (*_COLUMNS, *_ROWS, *_HEIGHTS, _OFF)
"""The tokens of places."""
_ANSWER: Final = "<answer>"
_CANNOT: Final = "<no>"
ANSWERS: Final = (_ANSWER, _CANNOT)
"""The tokens that end an episode."""
ACT: Final = "<act>"
MARKERS: Final = ("<task>", "<page>", "<did>", "<same>", "<some>", "<was>", ACT)

CHANNELS: Final = ("goal", "axtree", "last_action")
"""The channels of a browser environment's observations that prompts are made of."""

_DIRECTIONS: Final = {"<up>": (0, -1), "<down>": (0, 1), "<left>": (-1, 0), "<right>": (1, 0)}
_KEYS: Final = {"<enter>": "Enter", "<tab>": "Tab", "<escape>": "Escape"}
_ALL: Final = "<all>"
_ALSO: Final = "<also>"
_OVER: Final = "<over>"
VERBS: Final = (*_DIRECTIONS, *_KEYS, _ALL, _ALSO, _OVER)
"""The tokens of verbs.

* `<up>`, `<down>`, `<left>`, `<right>`: scroll the element to that end; press the arrow key if it
  is a field; drag anything else that way.
* `<enter>`, `<tab>`, `<escape>`: press the key there.
* `<all>`: select its text.
* `<also>`: choose the option beside those that are chosen.
* `<over>`: move the mouse over it.
"""

_FAR = 10_000
"""Pixels to scroll to an end."""
_DRAG = 35.0
"""Pixels to drag in a direction."""
_NUDGE = 4.0
_DONE = "done"
_REASON = "It cannot be done."
_PLACED = 0.05
"""How many random actions are clicks at a place."""
_REPLY = re.compile(r"\s*(<\w+>)\s*(<[\w-]+>)\s*")
_AROUND = "\"'.,:;!?()[]\u201c\u201d\u2018\u2019"
_REMEMBERED = 4
_RARE = 5
"""The most lines of a page that a rare word is in."""
_PROSE = 11
"""The words of a text that can be typed, beside its last."""
_SHORT_PROSE = 4
_NAME_TOKENS = re.compile(
    r"<(?:[ewxyz]\d+|n-?\d+|task|page|did|same|some|was|act|off|up|down|left|right|enter|tab|escape"
    r"|all|also|over|answer|no)>"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LONG_DATE = re.compile(rf"(\d{{1,2}}) ({'|'.join(_MONTHS)})[a-z]* (\d{{4}})")
_PROMPTS_WORD = re.compile(
    r"(?<!\S)[\"\u201c](?P<quoted>[^\"\u201c\u201d]{1,200})[\"\u201d](?!\w)\S*"
    rf"|\d{{1,2}}:\d\d [AaPp][Mm]\b\S*|\(?{_LONG_DATE.pattern}\b\S*|\S+"
)
"""Words, times, dates, and quoted texts with the punctuation around them."""
_PARTS = re.compile(r"\w+|[^\w\s]")
_ZEROS = re.compile(r"^0+(?=\d+$)")
_CASES = re.compile(r"\b(?:upper|lower) ?case\b", re.IGNORECASE)
_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_INTEGER = re.compile(r"-?\d+")
_TIME = re.compile(r"(\d{1,2}):(\d\d) ([AaPp])[Mm]")


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, and the meaning of its tokens."""

    text: str
    elements: Mapping[str, Item]
    """Items by element token."""
    words: Mapping[str, str]
    """Words by word token; empty if nothing can be typed."""

    def read(self, reply: str) -> Action:
        """Return the action that a reply means; an `InvalidAction` if it means none.

        >>> items = [Item("button Go", "Go", "1")]
        >>> prompt = make_prompt("Click on Go", items, names=random.Random(0))
        >>> prompt.read(f"{next(iter(prompt.elements))}<w0>")
        Click(ref='1', button='left', modifiers=(), count=1)
        """
        found = _REPLY.fullmatch(reply)
        if found is None:
            return _invalid("malformed", "expected the names of an element and of a word", reply)
        name, how = found.groups()
        if name in _COLUMNS and how in _ROWS:
            point = self._point(_COLUMNS.index(name), _ROWS.index(how))
            if point is None:
                return _invalid("bad_arguments", "the page's places are not known", reply)
            return ClickAt(*point)
        if name == _ANSWER:
            return self._answer(how) or _invalid("bad_arguments", f"{how} is no answer", reply)
        item = self.elements.get(name)
        if item is None:
            return _invalid("bad_arguments", f"no element is called {name}", reply)
        action = self._meant(item, how)
        if action is None:
            return _invalid("bad_arguments", f"{how} is nothing to do with {name}", reply)
        return action

    def _answer(self, how: str) -> Action | None:
        """Return the action that ends the episode; None if there is no such answer."""
        if how == _CANNOT:
            return ReportInfeasible(_REASON)
        text = _DONE if how == CLICK else self._text_of(how)
        return Answer(text) if text else None

    def _text_of(self, how: str) -> str | None:
        """Return the text that a token stands for; None if it stands for none."""
        if how in self.words:
            return self.words[how]
        if how in self.elements:
            return self.elements[how].text
        return how[2:-1] if how in NUMBERS else None

    def _meant(self, item: Item, how: str) -> Action | None:
        """Return the action on an element; None if there is no such action."""
        if item.editable and (text := self._text_of(how)) is not None:
            return Fill(item.ref, text) if text else None
        if how in self.elements:
            other = self.elements[how]
            return None if other is item else _drag(item, other)
        if how in NUMBERS:
            number = int(how[2:-1])
            keys = _PAGES if item.read_only else _STEPS
            return Press(item.ref, " ".join([keys[number > 0]] * abs(number))) if number else None
        if how in _KEYS:
            return Press(item.ref, _KEYS[how])
        if how in _DIRECTIONS:
            return _towards(item, *_DIRECTIONS[how])
        match how:
            case "<w0>" if item.chosen_from:
                return SelectOption(item.chosen_from, (item.name,))
            case "<also>" if item.chosen_from:
                return SelectOption(item.chosen_from, (*self._chosen_beside(item), item.name))
            case "<w0>":
                return Click(item.ref)
            case "<all>" if item.editable:
                return Press(item.ref, "ControlOrMeta+a")
            case "<all>":
                return Click(item.ref, count=3)
            case "<over>":
                return Hover(item.ref)
        return None

    def some_action(self, source: random.Random) -> Action | None:
        """Return a random action that a reply can mean; None if there is nothing to act on."""
        while self.elements:
            name = source.choice(list(self.elements))
            item = self.elements[name]
            if item.chosen_from:
                ways: list[Sequence[str]] = [(CLICK,), (CLICK,), (_ALSO,)]
            elif item.editable:
                words = tuple(self.words)
                ways = [words, words, words, tuple(self.elements), _SMALL, tuple(_KEYS)]
            else:
                ways = [(CLICK,), (CLICK,), tuple(self.elements), (*_SMALL, *_LESS), (_ALL, _OVER)]
            ways += [tuple(_DIRECTIONS)] * (3 if item.scrollable else 1)
            reply = f"{name}{source.choice(source.choice(ways) or (CLICK,))}"
            if source.random() < _PLACED:
                reply = f"{source.choice(_COLUMNS)}{source.choice(_ROWS)}"
            action = self.read(reply)
            if not isinstance(action, InvalidAction):
                return action
        return None

    def reply_for(self, action: object) -> str | None:
        """Return a reply that does what an action does; None if there is none."""
        match action:
            case ClickAt(x=x, y=y) if action == ClickAt(x, y):
                place = self._place_of(x, y)
                return None if place is None else "".join(place)
            case DragAt(path=path, modifiers=()):
                return self._reply_for_drag(path)
            case SelectOption(ref=ref, options=options):
                return self._reply_for_options(ref, options)
            case ReportInfeasible():
                return f"{_ANSWER}{_CANNOT}"
            case Answer(text=text):
                how = CLICK if text == _DONE else self._source_of(text)
                return None if how is None else f"{_ANSWER}{how}"
        name = self._name_of(getattr(action, "ref", None))
        if name is None:
            return None
        how = self._how(self.elements[name], action)
        return None if how is None else f"{name}{how}"

    def _how(self, item: Item, action: object) -> str | None:
        match action:
            case Click(ref=ref) if action == Click(ref):
                return None if item.chosen_from else CLICK
            case Click(ref=ref) if action == Click(ref, count=3) and not item.editable:
                return _ALL
            case Focus():
                return CLICK
            case Check():
                return None if "checked" in item.words.split() else CLICK
            case Uncheck():
                return CLICK if "checked" in item.words.split() else None
            case Fill(value=text) | TypeInto(text=text, submit=False):
                return self._source_of(text) if item.editable else None
            case DragTo(target_ref=target):
                return self._name_of(target)
            case Hover():
                return _OVER
            case Scroll(dx=dx, dy=dy):
                return _direction(dx, dy) if item.scrollable else None
            case Press(keys=keys):
                return self._how_to_press(item, keys)
        return None

    def done_as(self, action: Action) -> tuple[str, str] | None:
        """Return an action's ref and description for later prompts; None without an element."""
        found = _REPLY.fullmatch(self.reply_for(action) or "")
        if found is None or (item := self.elements.get(found[1])) is None:
            return None
        how = found[2]
        said = ""
        if isinstance(action, Fill | TypeInto):
            said = f" typed {action.value if isinstance(action, Fill) else action.text}"
        elif how in self.elements:
            said = f" to {self.elements[how].words}"
        elif how != CLICK:
            said = f" {how[1:-1]}"
        return item.ref, f"{item.words}{said}"

    def at(self, x: float, y: float) -> Item | None:
        """Return the shown element at a point; None if there is none, or boxes are not known."""
        name = self._named_at(x, y)
        return None if name is None else self.elements[name]

    def _name_of(self, ref: str | None) -> str | None:
        return next((name for name, item in self.elements.items() if ref in item.refs), None)

    def _source_of(self, text: str) -> str | None:
        """Return the token of a text to type or to answer."""
        meant = [word for word, said in self.words.items() if said == text]
        meant += [word for word, said in self.words.items() if _by_fields(said) == text]
        meant += [name for name, other in self.elements.items() if other.text == text]
        meant += [number for number in NUMBERS if number[2:-1] == text]
        return meant[0] if meant else None

    def _how_to_press(self, item: Item, keys: str) -> str | None:
        for verb, key in _KEYS.items():
            if keys == key:
                return verb
        if item.editable and keys == "ControlOrMeta+a":
            return _ALL
        pressed = keys.split(" ")
        known = _PAGE_KEYS if item.read_only else _ARROWS
        if len(set(pressed)) > 1 or pressed[0] not in known:
            return None
        steps = known[pressed[0]] * len(pressed)
        if item.editable and _INTEGER.fullmatch(item.text):  # A spinner: type where it arrives.
            return self._source_of(str(int(item.text) + steps))
        if item.editable:
            upright = keys in ("ArrowUp", "ArrowDown") and not item.scrollable
            return _direction(0, -steps) if upright else None
        number = f"<n{steps}>"
        return number if number in NUMBERS else None

    def _chosen_beside(self, option: Item) -> list[str]:
        return [
            item.name
            for item in self.elements.values()
            if item.chosen_from == option.chosen_from and item.selected and item is not option
        ]

    def _reply_for_options(self, ref: str, options: Sequence[str]) -> str | None:
        for name, item in self.elements.items():
            if item.chosen_from == ref and options and item.name == options[-1]:
                if len(options) == 1:
                    return f"{name}{CLICK}"
                if {*self._chosen_beside(item), item.name} == set(options):
                    return f"{name}{_ALSO}"
        return None

    def _reply_for_drag(self, path: Sequence[tuple[float, float]]) -> str | None:
        """Return the reply for a drag between two elements, or of one in a direction."""
        (x, y), (to_x, to_y) = path[0], path[-1]
        source, target = self._named_at(x, y), self._named_at(to_x, to_y)
        if source is None:
            return None
        if target is not None and target != source:
            return f"{source}{target}"
        if len(path) > 2 or 0 not in (to_x - x, to_y - y):
            return None
        way = _direction(to_x - x, to_y - y)
        return None if way is None else f"{source}{way}"

    def _named_at(self, x: float, y: float) -> str | None:
        """Return the element whose middle is nearest to a point in its box."""
        found = [
            (abs(left + width / 2 - x) + abs(top + height / 2 - y), -width * height, name)
            for name, item in self.elements.items()
            for left, top, width, height in item.boxes
            if left <= x <= left + width and top <= y <= top + height
        ]
        return min(found)[2] if found else None

    def _place_of(self, x: float, y: float) -> tuple[str, str] | None:
        return _place(_extent(self.elements.values()), x, y)

    def _point(self, column: int, row: int) -> tuple[float, float] | None:
        """Return the middle of a place."""
        width, height = _extent(self.elements.values())
        if not width or not height:
            return None
        return (column + 0.5) * width / _GRID, (row + 0.5) * height / _GRID


_STEPS = ("ArrowLeft", "ArrowRight")
_PAGES = ("PageUp", "PageDown")
_ARROWS = {"ArrowRight": 1, "ArrowUp": 1, "ArrowLeft": -1, "ArrowDown": -1}
_PAGE_KEYS = {"PageDown": 1, "PageUp": -1}


def _iso(text: str) -> str:
    """Return a date with the month's name as date fields have it inside; other text as it is.

    >>> _iso("2 March 2026"), _iso("2 persons")
    ('2026-03-02', '2 persons')
    """
    date = _LONG_DATE.fullmatch(text)
    if date is None:
        return text
    return f"{date[3]}-{_MONTHS.index(date[2]) + 1:02}-{int(date[1]):02}"


def _by_fields(text: str) -> str:
    """Return a date or time in the form that date and time fields have inside.

    >>> _by_fields("6/12/2015"), _by_fields("8:25 PM"), _by_fields("Bob")
    ('2015-06-12', '20:25', 'Bob')
    """
    if date := _DATE.fullmatch(text):
        return f"{date[3]}-{int(date[1]):02}-{int(date[2]):02}"
    if time := _TIME.fullmatch(text):
        return f"{int(time[1]) % 12 + 12 * (time[3] in 'Pp'):02}:{time[2]}"
    return text


def _drag(item: Item, target: Item) -> Action | None:
    """Return a drag to the middle of a target, and there a little back and forth.

    None if either middle is outside of the page.

    A list makes room before or after the item under the mouse, depending on the mouse's direction;
    moving both ways leaves the gap under the mouse, whatever it passed.
    """
    if not item.boxes or not target.boxes:
        return DragTo(item.ref, target.ref)
    start = _middle(item.boxes[0])
    x, y = _middle(max(target.boxes, key=_area))
    if min(*start, x, y) < 0:
        return None
    forth, back = (x + _NUDGE, y + _NUDGE), (max(x - _NUDGE, 0.0), max(y - _NUDGE, 0.0))
    return DragAt((start, forth, back, (x, y)))


def _middle(box: Box) -> tuple[float, float]:
    return box[0] + box[2] / 2, box[1] + box[3] / 2


def _area(box: Box) -> float:
    return box[2] * box[3]


def _towards(item: Item, dx: int, dy: int) -> Action | None:
    if item.scrollable:
        return Scroll(dx * _FAR, dy * _FAR, item.ref)
    if item.editable:
        return Press(item.ref, "ArrowDown" if dy > 0 else "ArrowUp") if dy else None
    if item.box is None:
        return None
    x, y = _middle(item.box)
    if min(x, y) < 0:  # Outside of the page.
        return None
    return DragAt(((x, y), (max(x + dx * _DRAG, 0.0), max(y + dy * _DRAG, 0.0))))


def _direction(dx: float, dy: float) -> str | None:
    """Return the token of a direction along one axis."""
    if (dx != 0) == (dy != 0):
        return None
    way = ((dx > 0) - (dx < 0), (dy > 0) - (dy < 0))
    return next(verb for verb, each in _DIRECTIONS.items() if each == way)


def cut(items: Sequence[Item], goal: str, most: int = len(ELEMENTS)) -> Sequence[Item]:
    """Return the lines of a page to show, in page order: all, or so many if it has more elements.

    Fields and buttons come first, and of each kind what is nearest to a line with a rare word of
    the goal.

    >>> page = [Item("cell Ann", ref="1"), Item("link Edit", ref="2"), Item("link Help", ref="3")]
    >>> [item.words for item in cut(page, "Edit Ann", 2)]
    ['cell Ann', 'link Edit']

    Args:
        items: The page.
        goal: The goal.
        most: How many elements may be shown.
    """
    if sum(bool(item.ref) for item in items) <= most:
        return items
    words = [{part.lower() for part in _parts(item.words) if part.isalnum()} for item in items]
    lines = collections.Counter(word for line in words for word in line)
    rare = {part.lower() for part in _parts(goal) if lines[part.lower()] <= _RARE}
    near = [at for at, line in enumerate(words) if line & rare]

    def rank(at: int) -> tuple[bool, int]:
        item = items[at]
        is_control = item.editable or item.words.partition(" ")[0] == "button"
        return not is_control, min((abs(at - other) for other in near), default=0)

    return [items[at] for at in sorted(sorted(range(len(items)), key=rank)[:most])]


def make_prompt(
    goal: str,
    items: Sequence[Item],
    done: Sequence[tuple[str, str]] = (),
    *,
    names: random.Random,
) -> Prompt:
    """Return the prompt for a goal and a page.

    Args:
        goal: The goal.
        items: The page.
        done: Past actions, oldest first: the ref acted on, and its description. Only the last few
            are described.
        names: Shuffles the tokens.
    """
    acted_on = sum(bool(item.ref) for item in items)
    pool = list(ELEMENTS if acted_on > _USUAL_ELEMENTS else ELEMENTS[:_USUAL_ELEMENTS])
    names.shuffle(pool)
    elements: dict[str, Item] = {}
    said = ["<task>"]
    words = _Words(names) if any(item.editable for item in items) else None
    said += map(_plain, goal.split()) if words is None else words.of_goal(goal)
    said.append("<page>")
    wanted = _parts(goal)
    was = {ref for ref, _ in done}
    extent = _extent(items)
    for item in items:
        if item.ref and not pool:
            break
        said += [_plain(item.words)] if words is None else words.of_item(item)
        if item.ref:
            name = pool.pop()
            elements[name] = item
            said += [*_marks(item, wanted, was), *_places(item, extent), name]
    if done:
        said.append("<did>")
        said += [_plain(told) for _, told in done[-_REMEMBERED:]]
    said.append(ACT)
    return Prompt(" ".join(said), elements, {} if words is None else words.said)


class _Words:
    """Deals tokens to the words that can be typed."""

    def __init__(self, names: random.Random) -> None:
        self._tags = list(WORDS[:_USUAL_WORDS])
        names.shuffle(self._tags)
        more = list(WORDS[_USUAL_WORDS:])
        names.shuffle(more)
        self._tags = more + self._tags
        self.said: dict[str, str] = {}

    def of_goal(self, goal: str) -> Iterator[str]:
        """Yield the goal's words, each new one followed by its token."""
        cases = _CASES.search(goal) is not None
        for word in _PROMPTS_WORD.finditer(goal):
            yield _plain(word[0])
            bare = _iso((word["quoted"] or word[0].strip(_AROUND)).strip())
            yield from self._tag(bare)
            if cases and word["quoted"]:
                for other in (bare.upper(), bare.lower()):
                    if other not in self.said.values():
                        yield _plain(other)
                        yield from self._tag(other)

    def of_item(self, item: Item) -> Iterator[str]:
        """Yield a line of the page; the words of a text can be typed."""
        if not item.prose:
            yield _plain(item.words)
            return
        words = item.text.split()
        if len(words) < _SHORT_PROSE:  # More likely a label.
            yield _plain(item.words)
            return
        if item.editable:
            yield _plain(item.words)
            words = words[-1:]
        elif len(words) > _PROSE:
            words = [*words[:_PROSE], words[-1]]
        for word in words:
            yield _plain(word)
            yield from self._tag(word.strip(_AROUND))

    def _tag(self, bare: str) -> Iterator[str]:
        if bare and self._tags and bare not in self.said.values():
            tag = self._tags.pop()
            self.said[tag] = bare
            yield tag


def check_elements(elements: object) -> None:
    """Check how many elements to show.

    Raises:
        InvalidInputError: It is no number from 1 to the number of names.
    """
    if not isinstance(elements, int) or not 1 <= elements <= len(ELEMENTS):
        raise errors.InvalidInputError(
            f"elements must be a number from 1 to {len(ELEMENTS)}; got {elements!r}."
        )


def _extent(items: Iterable[Item]) -> tuple[float, float]:
    """Return how far right and down the boxes reach; zeros without boxes."""
    boxes = [box for item in items for box in item.boxes]
    return (
        max((x + width for x, _, width, _ in boxes), default=0.0),
        max((y + height for _, y, _, height in boxes), default=0.0),
    )


def _places(item: Item, extent: tuple[float, float]) -> Iterator[str]:
    if not any(extent):
        return
    if item.box is None:
        yield _OFF
        return
    x, y, width, height = item.box
    yield from _place(extent, x + width / 2, y + height / 2) or (_OFF,)
    yield _HEIGHTS[min(int(math.log2(max(height, 1.0))), len(_HEIGHTS) - 1)]


def _place(extent: tuple[float, float], x: float, y: float) -> tuple[str, str] | None:
    if not all(extent):
        return None
    column, row = (
        min(max(int(_GRID * at / length), 0), _GRID - 1)
        for at, length in zip((x, y), extent, strict=True)
    )
    return _COLUMNS[column], _ROWS[row]


def _marks(item: Item, goal: Sequence[str], was: Collection[str]) -> Iterator[str]:
    name = _parts(item.name)
    length = len(name)
    if name and any(goal[at : at + length] == name for at in range(len(goal) - length + 1)):
        yield "<same>"
    elif {part.lower() for part in _parts(item.words + _kind(item))} & {
        part.lower() for part in goal
    }:
        yield "<some>"
    if item.ref in was:
        yield "<was>"


def _kind(item: Item) -> str:
    """Return what HTML calls a text field, after a blank; empty for anything else."""
    if item.words.partition(" ")[0] != "textbox":
        return ""
    return " textarea" if item.prose else " text"


def _parts(text: str) -> list[str]:
    """Split a text into words, numbers without leading zeros, and punctuation marks.

    >>> _parts('Select 12/03/2016.')
    ['Select', '12', '/', '3', '/', '2016', '.']
    """
    return [_ZEROS.sub("", part) for part in _PARTS.findall(text)]


def _plain(text: str) -> str:
    """Return a page's or goal's text without anything that looks like a token."""
    return without_markup(_NAME_TOKENS.sub(" ", text)).strip()


def _invalid(kind: str, reason: str, reply: str) -> InvalidAction:
    return InvalidAction(reason=f"{reason[0].upper()}{reason[1:]}.", text=reply[:200], kind=kind)


# The pointing agent: a short prompt goes to a model, and two tokens come back.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PointingAgent:
    """Asks a model which element to act on, and which of the goal's words to type.

    Needs the channels `goal` and `axtree` of a browser environment. With `boxes`, prompts say where
    elements are; a model that has learned with places needs them. An unreadable reply is an
    `InvalidAction`; `max_invalid_actions` of them in a row give up the episode, which truncates it.
    """

    client: ModelClient
    """The model, shared by all episodes."""
    temperature: float = 0.0
    """The sampling temperature: 0 takes the most likely reply, 1 explores."""
    seed: int = 0
    """The seed of token names and sampling, combined with the episode's task, seed and step. Give
    attempts of one task different seeds."""
    max_tokens: int = 2
    """The most tokens of a reply: two, if each name is one token, as in webtraj's own models."""
    max_invalid_actions: int = 3
    """The number of consecutive invalid replies that ends the episode."""
    elements: int = len(ELEMENTS)
    """The most elements to show of a page; see `cut`. Play a model with the number that it was
    trained with."""
    timeout: float | None = None
    """Seconds for one call, including retries; None uses the client's."""
    name: str = ""
    """The policy name in episodes. Default: `pointing/` and the client's name."""

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise errors.InvalidInputError(
                f"The agent's temperature must be 0 or more; got {self.temperature!r}."
            )
        if self.max_invalid_actions < 1:
            raise errors.InvalidInputError(
                f"max_invalid_actions must be 1 or more; got {self.max_invalid_actions!r}."
            )
        check_elements(self.elements)
        if not self.name:
            object.__setattr__(self, "name", f"pointing/{self.client.name}")

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that the agent needs: `CHANNELS`."""
        return CHANNELS

    def begin_episode(self, environment: environment_lib.Environment) -> _Actor:
        """Return an actor that remembers its past actions."""
        return _Actor(self, random.Random(seed_text(self.seed, environment)))

    async def aclose(self) -> None:
        """Close the client."""
        await self.client.aclose()


class Pointer:
    """Shows the pages of one episode as prompts, and remembers what was done.

    Args:
        names: Shuffles the tokens.
        elements: The most elements to show of a page.
    """

    def __init__(self, names: random.Random, elements: int = len(ELEMENTS)) -> None:
        self._names, self._elements = names, elements
        self._done: list[tuple[str, str]] = []
        self._prompt: Prompt | None = None

    def show(self, observation: Any) -> str:
        """Return the prompt for an observation.

        Raises:
            AgentError: The observation has no goal or axtree.
        """
        if not isinstance(observation, Mapping) or not {"goal", "axtree"} <= observation.keys():
            raise errors.AgentError(
                "The pointing agent needs observations with the channels 'goal' and 'axtree'; got "
                f"{type(observation).__name__!r}."
            )
        goal = observation["goal"]
        items = cut(items_of(observation["axtree"], observation.get("boxes")), goal, self._elements)
        self._prompt = make_prompt(goal, items, self._done, names=self._names)
        return self._prompt.text

    def read(self, reply: str) -> Action:
        """Return what a reply to the last prompt means; an `InvalidAction` if it means nothing."""
        if self._prompt is None:
            return _invalid("bad_arguments", "no page was shown yet", reply)
        action = self._prompt.read(reply)
        self.done(action)
        return action

    def done(self, action: Any) -> None:
        """Note an action on the page that was shown last, for later prompts."""
        if self._prompt is None or not isinstance(action, Action):
            return
        if not isinstance(action, InvalidAction) and (done := self._prompt.done_as(action)):
            self._done.append(done)


class PointingDialect(Pointer):
    """The dialect `pointing`: see `webtraj_integrations.sessions.PageDialect`.

    Args:
        seed: The page's seed, which shuffles the tokens.
    """

    channels = CHANNELS

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed))


class _Actor:
    """Acts in one episode."""

    def __init__(self, agent: PointingAgent, source: random.Random) -> None:
        self._agent = agent
        self._random = source
        self._pointer = Pointer(source, agent.elements)
        self._invalid_in_a_row = 0

    def remember(self, observation: Any, decision: trajectory_lib.Decision) -> None:
        """Take a repeated step of a fork for its own; see `webtraj.rollouts.forks.ForkAgent`."""
        self._pointer.show(observation)
        self._pointer.done(decision.action)

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        """Return the model's decision.

        Raises:
            EpisodeGivenUpError: Too many replies in a row were invalid.
            ModelError: The model did not reply.
            AgentError: The observation has no goal or axtree.
        """
        prompt = self._pointer.show(observation)
        agent = self._agent
        sampling = Sampling(
            temperature=agent.temperature,
            max_tokens=agent.max_tokens,
            seed=self._random.getrandbits(31) if agent.temperature else None,
        )
        try:
            call = await agent.client.complete(
                (Message.of("user", prompt),), sampling, timeout=agent.timeout
            )
        except errors.ModelError as error:
            if error.call is not None:
                error.decision = _decision((error.call,), None)
            raise
        action = self._pointer.read(call.text)
        decision = _decision((call,), action)
        if not isinstance(action, InvalidAction):
            self._invalid_in_a_row = 0
            return decision
        self._invalid_in_a_row += 1
        if self._invalid_in_a_row >= agent.max_invalid_actions:
            raise make_given_up_error(
                f"{self._invalid_in_a_row} replies in a row were not valid actions; the last: "
                f"{action.reason}",
                decision,
            )
        return decision


def _decision(
    calls: tuple[trajectory_lib.ModelCall, ...], action: Action | None
) -> trajectory_lib.Decision:
    return trajectory_lib.Decision(
        action=action,
        parse_error=action.reason if isinstance(action, InvalidAction) else "",
        model_calls=calls,
        metadata={"dialect": "pointing"},
    )


# The options of a pointing agent, as on the command line.

OPTIONS = (
    "model", "base_url", "provider", "api_key_variable", "max_concurrency", "requests_per_minute",
    "temperature", "max_tokens", "seed", "max_invalid_actions", "timeout",
)  # fmt: skip


def make_pointing_agent(seed: int, options: Mapping[str, Any]) -> PointingAgent:
    """Make an agent with its own client: of a server, or of a folder if no server is given.

    Args:
        seed: The seed, unless the options have one.
        options: `elements`, and the fields of `webtraj.agents.options.ModelOptions` named in
            `OPTIONS`.

    Raises:
        InvalidInputError: An option is unknown, or its value is invalid.
    """
    known = (*OPTIONS, "elements")
    if unknown := [name for name in options if name not in known]:
        raise errors.InvalidInputError(
            f"The agent 'pointing' does not take {unknown[0]!r}; its options: {', '.join(known)}."
        )
    read = read_options({name: value for name, value in options.items() if name in OPTIONS})
    in_folder = read.base_url is None and Path(read.model).is_dir()
    return PointingAgent(
        client=LocalModel(Path(read.model)) if in_folder else read.make_client(),
        temperature=read.temperature or 0.0,
        seed=seed if read.seed is None else read.seed,
        max_tokens=read.max_tokens or 2,
        max_invalid_actions=read.max_invalid_actions,
        elements=options.get("elements", len(ELEMENTS)),
        timeout=read.timeout,
    )


POINTING = AgentKind(
    "Asks a small model; see two_cores.pointing.",
    make_pointing_agent,
    "model, base_url, elements and those of two_cores.pointing.OPTIONS",
    # Its replies are two names; what limits prose in a configuration is not for them.
    shared=tuple(name for name in OPTIONS if name != "max_tokens"),
)
"""The agent as the command line and configurations know it."""
