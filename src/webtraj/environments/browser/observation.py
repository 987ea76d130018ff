r"""Observations of a browser environment: a dict with a key for each requested channel.

The `axtree` channel is the page as text, a line for each element::

    line   = indent "[" ref "] " role [" " name] {" " state} | indent "text " string [" covered"]
    indent = two spaces for each enclosing line
    ref    = letters and digits; what actions call the element
    role   = an ARIA role; "generic" for a plain element; an SVG shape's tag
    name   = string
    string = a JSON string
    state  = "checked" ["=mixed"] | "selected" | "pressed" ["=mixed"] | "disabled" | "readonly"
           | "focused" | "active" | "multiline" | "scrollable" | "covered" | "expanded=" bool
           | "level=" digits | "type=" word | "value=" string | "fill=" string | "color=" string
           | "image=" string | "placeholder=" string

`type` is that of an input which takes files, or text of one form only, such as a date. `active` is
what keys act on in a list whose field has the focus. `covered` is what something else on the page
hides from the eye, or keeps from being used, as a dialog does. The label of a checkbox, a radio
button or a file input that is not displayed has its role and states. A name that ends with "…" is
cut; the whole text then follows inside the element, as does text that is seen in an element whose
name says something else. An editor's text is its value; what it holds besides is inside it.
`placeholder` is what an empty field shows, unless that is its name. The browser's suggestions
for a field are the options of a `listbox` inside it. An option's `value` is the text that it puts
into the field, if that is not its name. Fields that share a list all show it, with the same ref;
the options are under the first.

`fill` is the colour of an SVG shape, or of SVG text unless it is black, `color` the background of a
plain element without content, `image` the file name of an image without a name. A password's value
shows as bullets. Hidden elements and plain wrappers have no line. A frame of another origin that
does not answer in time has a line `... no answer` inside; frames beyond the tenth, or more than
three deep, have no content. A ref names the same element for as long as it is in the page, and is
never reused within an episode. A page longer than `Observe.axtree_limit` characters is cut off, as
is a text that does not fit, which ends with "…", and what is nested more than 600 elements deep;
the last line `... 123 more lines` counts the rest.
"""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict, cast, get_args

import numpy as np
from dm_env import specs
from numpy.typing import NDArray

from webtraj import errors as errors_lib
from webtraj.environments.browser.recorded_channels import read_string

__all__ = [
    "Boxes",
    "BrowserObservation",
    "CHANNELS",
    "Column",
    "DEFAULT_CHANNELS",
    "Downloads",
    "FIELDS",
    "LastAction",
    "Observe",
    "Ref",
    "Rows",
    "ScrollExtents",
    "SetOfMarks",
    "Strings",
    "TaskInfo",
    "Timings",
    "aria_refs_in",
    "captions_in",
    "changes_between",
    "observation_spec",
    "page_changes",
    "refs_in",
    "selector_path",
    "subtree_of",
    "text_in",
]


class LastAction(TypedDict):
    """The result of the last action. Empty strings and zeros on the first step."""

    error: str
    """Why it failed, as a sentence for the agent; empty if it succeeded."""
    error_kind: str
    """The same as one word, for counting: unknown_ref, gone, hidden, covered, disabled, ..."""
    ref: str
    """The element's ref; this and the next seven fields are empty if there was no element."""
    role: str
    name: str
    test_id: str
    """Its `data-testid` or similar attribute."""
    named_by: str
    """Why Playwright may not find it by its name, as words: `title` if its name is its title, and
    it has no text; `icon` if its style adds a character to its name; `aria-label` if that is its
    name, but not its text; `parts` if its text differs from its name for other reasons; `behind` if
    a click on it hits its label; `label` alone if it is the label of a box that is not displayed,
    with that box's role and name."""
    selector: str
    """A CSS selector for it in its document. ` >> ` leads from a host into its shadow root."""
    frame: str
    """URL of its frame; empty for the top document."""
    box: NDArray[np.float64]
    """Its box as x, y, width, height in CSS pixels of the viewport; shape (4,)."""
    settled: str
    """How the wait for the page ended: quiet, cap, or navigated."""


def selector_path(selector: str) -> list[str]:
    """Return the parts of a `LastAction` selector, each in the shadow root of the part before.

    `:scope >` is left out, because it matches nothing in a shadow root.

    >>> selector_path("#menu >> :scope > button")
    ['#menu', 'button']
    """
    return [part.removeprefix(":scope > ") for part in selector.split(" >> ")]


class Timings(TypedDict):
    """The parts of a step's duration, in seconds. Acting is 0 on the first step."""

    act: float
    """Performing the action."""
    settle: float
    """Waiting for the page to settle."""
    observe: float
    """Reading the page, measured in the page."""
    pictures: float
    """Screenshot and set of marks, beyond the time in which they overlap with the above."""
    total: float
    """From the action to the observation, including browser calls and the task's verdict."""
    waiting: float
    """Waiting for turns, included in the total, if the pool limits its operations."""


class ScrollExtents(TypedDict):
    """The scroll position of the top document, in CSS pixels."""

    x: float
    y: float
    width: float
    """Width of the viewport."""
    height: float
    page_width: float
    """Width of the whole page."""
    page_height: float


class Boxes(TypedDict):
    """The boxes of the axtree's elements that are at least partly inside the viewport."""

    refs: NDArray[np.str_]
    """Their refs, in the axtree's order; shape (n,)."""
    boxes: NDArray[np.float64]
    """x, y, width and height of each, in CSS pixels of the viewport; shape (n, 4)."""


class SetOfMarks(TypedDict):
    """A screenshot with numbered boxes over the elements that can be acted on.

    Enabled elements with an interactive role or a handler are marked if they are visible in the
    viewport. Mark n, counted from 1, is the element at index n - 1.
    """

    image: bytes
    """An encoded image, as `screenshot`; empty on steps that `screenshot_stride` skips."""
    refs: NDArray[np.str_]
    """The ref of each mark; shape (n,), as are roles and names."""
    roles: NDArray[np.str_]
    names: NDArray[np.str_]
    boxes: NDArray[np.float64]
    """x, y, width and height of each visible part, in CSS pixels of the viewport; shape (n, 4).
    """


class Downloads(TypedDict):
    """The n files downloaded since the last step."""

    names: NDArray[np.str_]
    """Plain, sanitized file names; shape (n,), as are all fields."""
    urls: NDArray[np.str_]
    mime_types: NDArray[np.str_]
    """Media types, from the file extensions."""
    sizes: NDArray[np.int64]
    """Bytes; 0 for files that did not arrive."""
    contents: NDArray[np.object_]
    """Contents; empty if the file is larger than `Observe.download_limit` or failed."""
    errors: NDArray[np.str_]
    """Why a file is not kept; empty if it is."""


class TaskInfo(TypedDict):
    """What the task says about the step, besides the reward. Not shown to the agent."""

    raw_reward: float
    """The reward before any scaling by time."""
    scaled_reward: float
    """The reward as the task scales it by the time taken."""
    success: bool
    """Whether the episode succeeded, by the environment's rule."""
    reason: str
    """Why the task gave its reward, if it gives a reason."""


class BrowserObservation(TypedDict, total=False):
    """One observation, with the requested channels only."""

    goal: str
    """The task's goal."""
    url: str
    title: str
    axtree: str
    """The page as text; the module's docstring has the grammar."""
    changes: NDArray[np.str_]
    """Axtree lines added (`+ ...`) or removed (`- ...`) since the last step, without indents. Empty
    on the first step."""
    boxes: Boxes
    aria: str
    """Playwright's ARIA snapshot of the page, with the refs of the axtree. Empty if the page
    navigated meanwhile."""
    text: str
    """The page's visible text."""
    screenshot: bytes
    """The viewport as a JPEG, WebP or PNG; empty on steps that `screenshot_stride` skips."""
    set_of_marks: SetOfMarks
    focused: str
    """Ref of the element with the keyboard focus; empty if there is none."""
    scroll: ScrollExtents
    tabs: NDArray[np.str_]
    """URLs of the open tabs, in order of opening; shape (number of tabs,)."""
    active_tab: int
    """Index of the observed tab; comes with `tabs`."""
    dialogs: NDArray[np.str_]
    """JavaScript dialogs since the last step, as `kind: message`; answered automatically."""
    blocked: NDArray[np.str_]
    """What was blocked since the last step, as `url: reason`: requests that the network policy
    denies, pages that a tab was sent back from, downloads."""
    downloads: Downloads
    console: NDArray[np.str_]
    """Console errors and uncaught exceptions since the last step."""
    http_status: int
    """HTTP status of the document; 0 if there is none, as for a file."""
    network: str
    """HTTP exchanges that ended since the last step: entries of a HAR log, one JSON object a line.
    Bodies are included up to `Observe.body_limit`."""
    last_action: LastAction
    timings: Timings
    info: TaskInfo


CHANNELS: Final = tuple(key for key in BrowserObservation.__annotations__ if key != "active_tab")
"""Every channel. `tabs` also gives the key `active_tab`; without `downloads` there are none."""

DEFAULT_CHANNELS: Final = (
    "goal",
    "url",
    "axtree",
    "screenshot",
    "focused",
    "last_action",
    "timings",
    "info",
)


PictureFormat = Literal["jpeg", "webp", "png"]


@dataclasses.dataclass(frozen=True, slots=True)
class Observe:
    """Settings for observations. A channel that is not requested costs nothing."""

    channels: tuple[str, ...] = DEFAULT_CHANNELS
    """Names from `CHANNELS`."""
    screenshot_format: PictureFormat = "jpeg"
    """WebP takes half of JPEG's bytes for pictures as good, and three times the CPU. A picture that
    may show a secret is a JPEG instead: in WebP no part of it could be hidden without a trace."""
    screenshot_quality: int = 80
    """1 to 100, for JPEG and WebP."""
    screenshot_scale: float = 1.0
    """Scale of screenshots relative to the viewport; above 0, at most 1. For more detail than CSS
    pixels give the context a `device_scale_factor`."""
    screenshot_stride: int = 1
    """A screenshot is taken on every n-th step, starting with the first, and after the action
    `Screenshot`; 0 takes only the latter. Format, quality, scale and stride apply to set-of-marks
    pictures too."""
    marks_seed: int = 0
    """Seed of the mark colours."""
    axtree_limit: int = 500_000
    """The approximate limit on the axtree, in characters without indents, and on the ARIA
    snapshot."""
    download_limit: int = 10_000_000
    """The largest downloaded file that is kept, in bytes."""
    body_limit: int = 0
    """The largest body of a request or response that `network` holds, in bytes; 0 for none."""

    def __post_init__(self) -> None:
        channels = tuple(self.channels)
        unknown = sorted(set(channels) - set(CHANNELS))
        if unknown:
            raise errors_lib.InvalidInputError(
                f"Unknown observation channels {unknown}; expected {', '.join(CHANNELS)}."
            )
        if self.screenshot_format not in get_args(PictureFormat):
            raise errors_lib.InvalidInputError(
                "screenshot_format must be 'jpeg', 'webp' or 'png'; got "
                f"{self.screenshot_format!r}."
            )
        if not 0 < self.screenshot_scale <= 1:
            raise errors_lib.InvalidInputError(
                f"screenshot_scale must be above 0 and at most 1; got {self.screenshot_scale}."
            )
        if self.axtree_limit < 1 or self.download_limit < 0 or self.body_limit < 0:
            raise errors_lib.InvalidInputError(
                "axtree_limit must be at least 1, download_limit and body_limit at least 0; got "
                f"{self.axtree_limit}, {self.download_limit} and {self.body_limit}."
            )
        if not 1 <= self.screenshot_quality <= 100 or self.screenshot_stride < 0:
            raise errors_lib.InvalidInputError(
                "screenshot_quality must be 1 to 100 and screenshot_stride at least 0; got "
                f"{self.screenshot_quality} and {self.screenshot_stride}."
            )
        ordered = tuple(channel for channel in CHANNELS if channel in channels)
        object.__setattr__(self, "channels", ordered)

    @classmethod
    def of(cls, value: Observe | Mapping[str, Any] | Iterable[str] | None) -> Observe:
        """Convert `value`: an `Observe` or its fields, channel names, or None for the default."""
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping):
            known = [field.name for field in dataclasses.fields(cls)]
            if unknown := sorted(set(value) - set(known)):
                raise errors_lib.InvalidInputError(
                    f"Unknown settings {unknown} of observe; expected {', '.join(known)}."
                )
            return cls(**value)
        if isinstance(value, str):
            return cls((value,))
        return cls(tuple(cast("Iterable[str]", value)))


@dataclasses.dataclass(frozen=True, slots=True)
class Ref:
    """An element, as a line of the axtree."""

    ref: str
    role: str
    name: str
    states: tuple[str, ...] = ()
    """Its states as written in the line: `checked`, `value="Anna"`."""


_STRING = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(
    rf"^ *\[(?P<ref>[^\]]+)\] (?P<role>\S+)(?: (?P<name>{_STRING}))?"
    rf"(?P<states>(?: [a-z]+(?:=(?:{_STRING}|[\w-]+))?)*)$",
    re.MULTILINE,
)
_TEXT_LINE = re.compile(rf"^ *text (?P<text>{_STRING})(?: covered)?$")
_STATE = re.compile(rf"[a-z]+(?:=(?:{_STRING}|[\w-]+))?")


def text_in(line: str) -> str | None:
    r"""Return the text of an axtree's text line; None for any other line.

    >>> text_in('  text "Hi"'), text_in('[1] button "Hi"')
    ('Hi', None)
    """
    found = _TEXT_LINE.match(line)
    return None if found is None else read_string(found["text"])


def refs_in(axtree: str) -> list[Ref]:
    r"""Return the elements of an axtree, in order.

    >>> refs_in('[1] textbox "User" value="bob" focused\n  [2] button "Log in"\ntext "Hi"')[0]
    Ref(ref='1', role='textbox', name='User', states=('value="bob"', 'focused'))
    """
    return [
        Ref(
            ref=found["ref"],
            role=found["role"],
            name=read_string(found["name"]) if found["name"] else "",
            states=tuple(_STATE.findall(found["states"])),
        )
        for found in _LINE.finditer(axtree)
    ]


_CUT = re.compile(r"^ *\.\.\. \d+ more lines$", re.MULTILINE)


def is_cut(axtree: str) -> bool:
    """Return whether a part of the page, or of a frame, is missing from an axtree."""
    return _CUT.search(axtree) is not None


# The dm_env specs of observations.


class Strings(specs.Array):  # type: ignore[misc]  # dm_env is untyped.
    """A list of strings of any length, as a one-dimensional array of numpy's str type."""

    def __init__(self, name: str) -> None:
        super().__init__(shape=(0,), dtype=np.str_, name=name)

    def validate(self, value: Any) -> NDArray[np.str_]:
        """See `specs.Array.validate`."""
        array: NDArray[np.str_] = np.asarray(value)
        if array.ndim != 1 or array.dtype.kind != "U":
            raise ValueError(
                f"{self.name} must be a one-dimensional array of str; "
                f"got shape {array.shape} of {array.dtype}."
            )
        return array

    def generate_value(self) -> NDArray[np.str_]:
        """See `specs.Array.generate_value`."""
        return np.array([], dtype=np.str_)

    def __reduce__(self) -> tuple[Any, ...]:
        return Strings, (self.name,)


class Column(specs.Array):  # type: ignore[misc]  # dm_env is untyped.
    """A column of values of one type with any number of rows: shape (n,)."""

    def __init__(self, name: str, dtype: type) -> None:
        super().__init__(shape=(0,), dtype=dtype, name=name)
        self._type = dtype

    def validate(self, value: Any) -> NDArray[Any]:
        """See `specs.Array.validate`."""
        array: NDArray[Any] = np.asarray(value)
        if array.ndim != 1 or array.dtype != self.dtype:
            raise ValueError(
                f"{self.name} must be {self.dtype} of shape (n,); "
                f"got shape {array.shape} of {array.dtype}."
            )
        return array

    def generate_value(self) -> NDArray[Any]:
        """See `specs.Array.generate_value`."""
        return np.zeros(self.shape, dtype=self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return Column, (self.name, self._type)


class Rows(specs.Array):  # type: ignore[misc]  # dm_env is untyped.
    """A table of floats with any number of rows: shape (n, columns)."""

    def __init__(self, name: str, columns: int) -> None:
        super().__init__(shape=(0, columns), dtype=np.float64, name=name)

    def validate(self, value: Any) -> NDArray[np.float64]:
        """See `specs.Array.validate`."""
        array: NDArray[np.float64] = np.asarray(value)
        if array.ndim != 2 or array.shape[1] != self.shape[1] or array.dtype != np.float64:
            raise ValueError(
                f"{self.name} must be float64 of shape (n, {self.shape[1]}); "
                f"got shape {array.shape} of {array.dtype}."
            )
        return array

    def generate_value(self) -> NDArray[np.float64]:
        """See `specs.Array.generate_value`."""
        return np.zeros(self.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self.name, self.shape[1])


def observation_spec(observe: Observe) -> dict[str, Any]:
    """Return the specs of the observations that `observe` asks for."""
    every = {
        **{
            key: _string(key)
            for key in ("goal", "url", "title", "axtree", "aria", "text", "focused", "network")
        },
        "screenshot": specs.StringArray(shape=(), string_type=bytes, name="screenshot"),
        "set_of_marks": {
            "image": specs.StringArray(shape=(), string_type=bytes, name="image"),
            **{key: Strings(key) for key in ("refs", "roles", "names")},
            "boxes": Rows("boxes", 4),
        },
        "changes": Strings("changes"),
        "boxes": {"refs": Strings("refs"), "boxes": Rows("boxes", 4)},
        "scroll": {key: _number(key) for key in ScrollExtents.__annotations__},
        "tabs": Strings("tabs"),
        "dialogs": Strings("dialogs"),
        "blocked": Strings("blocked"),
        "downloads": {
            **{key: Strings(key) for key in ("names", "urls", "mime_types", "errors")},
            "sizes": Column("sizes", np.int64),
            "contents": Column("contents", object),
        },
        "console": Strings("console"),
        "http_status": specs.Array(shape=(), dtype=int, name="http_status"),
        "last_action": _last_action_spec(),
        "timings": {key: _number(key) for key in Timings.__annotations__},
        "info": {
            "raw_reward": _number("raw_reward"),
            "scaled_reward": _number("scaled_reward"),
            "success": specs.Array(shape=(), dtype=bool, name="success"),
            "reason": _string("reason"),
        },
    }
    spec = {channel: every[channel] for channel in observe.channels}
    if "tabs" in spec:
        spec["active_tab"] = specs.Array(shape=(), dtype=int, name="active_tab")
    return spec


def _last_action_spec() -> dict[str, Any]:
    spec = {key: _string(key) for key in LastAction.__annotations__}
    spec["box"] = specs.Array(shape=(4,), dtype=np.float64, name="box")
    return spec


def _string(name: str) -> specs.StringArray:
    return specs.StringArray(shape=(), name=name)


def _number(name: str) -> specs.Array:
    return specs.Array(shape=(), dtype=float, name=name)


# Captions: names for fields without one, from the text right before them on the page.
#
# Many forms have texts beside their fields that the page does not link to them (a `<label>` without
# `for`, a cell of a table). People read them as names; so do goals, rules and prompts.

FIELDS: Final = frozenset({"textbox", "searchbox", "spinbutton", "combobox", "listbox", "slider"})
"""Roles with the caption before them. Checkboxes have theirs after them."""

_SAYING: Final = frozenset(
    {
        "generic", "paragraph", "strong", "emphasis", "heading", "label", "term", "cell",
        "gridcell", "rowheader",
    }
)  # fmt: skip
"""Roles whose name is text on the page. A column's name is above, not before."""
_LONGEST = 60
_MARKS = " :*\u2013-"
_SENTENCE = (".", "!")


def captions_in(axtree: str) -> dict[str, str]:
    r"""Return the captions of a page's fields, by ref.

    A caption is the text, or text-only element, right before a field, with no other field, control
    or named image between them. Trailing colons and asterisks are stripped. A text of more than 60
    characters, or one that ends like a sentence, is not a caption.

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


_OUR_REF = re.compile(r"\[ref=([A-Za-z0-9]+)\]")


def aria_refs_in(snapshot: str) -> list[str]:
    r"""Return the refs in a snapshot, in order.

    >>> aria_refs_in('- main [ref=1]:\n  - button "Go" [ref=2]')
    ['1', '2']
    """
    return _OUR_REF.findall(snapshot)


# Two texts of a page compared: what changed, so that unchanged parts need not be sent again.
#
# A comparison is a list of lines, in the new page's order; the first two characters say what each
# is::
#
#     "  " line                      an unchanged line: the parent of lines that are new
#     "+ " line                      a new line
#     "~ " line                      an element with the same ref, and its new line
#     "- " line                      a removed line
#     "... " n " unchanged lines"    not shown
#     "... " n " more removed lines" not shown: they followed the removed line above
#
# Lines keep their indents. Nothing else is left out: the old page and the changes give the new
# page.

_SAME, _NEW, _CHANGED, _GONE = "  ", "+ ", "~ ", "- "
_REF = re.compile(r" *\[([^\]]+)\]")


def page_changes(before: str, after: str) -> str:
    r"""Return the changes from one axtree to the next. See the module for the form.

    Equal lines at the start and at the end are unchanged. In between, elements with the same ref
    and equal texts are unchanged if they have the same parent.

    >>> old = '[1] main\n  [2] textbox "Name"\n  [3] list\n    [4] listitem "Eggs"\n[5] button "Go"'
    >>> new = '[1] main\n  [2] textbox "Name" value="A"\n  [3] list\n    [6] listitem "Milk"\n'
    >>> print(page_changes(old, new + '[5] button "Go"'))
      [1] main
    ~   [2] textbox "Name" value="A"
        [3] list
    -     [4] listitem "Eggs"
    +     [6] listitem "Milk"
      [5] button "Go"
    """
    old, new = before.split("\n"), after.split("\n")
    start, end = _equal_ends(old, new)
    parents = _parents(new[: len(new) - end])
    pairs = [
        *((place, place) for place in range(start)),
        *_pairs(old, new, start, end),
        *((len(old) - place, len(new) - place) for place in range(end, 0, -1)),
    ]
    kept = {place for _, place in pairs}
    shown = {parents[place] for place in range(start, len(new) - end) if place not in kept}
    lines: list[str] = []
    quiet: list[str] = []
    last_old = last_new = -1
    for from_, to in [*pairs, (len(old), len(new))]:
        gone, come = old[last_old + 1 : from_], new[last_new + 1 : to]
        same = to < len(new) and old[from_] == new[to]
        if gone or come or not same or to in shown:
            lines += _short(quiet, "unchanged")
            quiet = []
        if gone:
            lines += [_GONE + gone[0], *_short(gone[1:], "more removed", _GONE)]
        lines += [_NEW + line for line in come]
        if to == len(new):
            break
        if same and to not in shown:
            quiet.append(new[to])
        else:
            lines.append((_SAME if same else _CHANGED) + new[to])
        last_old, last_new = from_, to
    return "\n".join(lines)


def subtree_of(axtree: str, ref: str) -> str | None:
    r"""Return the lines of an element and of all inside it; None if it is not in the page.

    >>> subtree_of('[1] main\n  [2] list\n    text "Hi"\n  [3] button', "2")
    '  [2] list\n    text "Hi"'
    """
    lines = axtree.split("\n")
    for first, line in enumerate(lines):
        found = _REF.match(line)
        if found is not None and found[1] == ref:
            depth = _indent(line)
            end = first + 1
            while end < len(lines) and _indent(lines[end]) > depth:
                end += 1
            return "\n".join(lines[first:end])
    return None


def changes_between(before: str, after: str) -> list[str]:
    """Return the lines by which two axtrees differ, in any place: first removed, then added.

    >>> changes_between('[1] button "Go"', '[1] button "Stop"')
    ['- [1] button "Go"', '+ [1] button "Stop"']
    """
    old, new = ([line.strip() for line in tree.splitlines()] for tree in (before, after))
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    return [*_mark_lines(_GONE, old, gone), *_mark_lines(_NEW, new, come)]


def _mark_lines(mark: str, lines: list[str], counted: Counter[str]) -> Iterator[str]:
    for line in lines:
        if counted[line]:
            counted[line] -= 1
            yield f"{mark}{line}"


def _short(lines: Sequence[str], what: str, mark: str = _SAME) -> list[str]:
    """Return unchanged lines in short form: their count, or the lines if these are as short."""
    counted = f"... {len(lines)} {what} line{'s' * (len(lines) != 1)}"
    if sum(len(line) + len(mark) + 1 for line in lines) <= len(counted) + 1:
        return [mark + line for line in lines]
    return [counted]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _parents(lines: Sequence[str]) -> list[int]:
    """Return the place of each line's parent, -1 at the top."""
    parents = []
    around: list[tuple[int, int]] = [(-1, -1)]
    for place, line in enumerate(lines):
        indent = _indent(line)
        while around[-1][0] >= indent:
            around.pop()
        parents.append(around[-1][1])
        around.append((indent, place))
    return parents


def _equal_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines are equal at the start, and how many of the rest at the end."""
    most = min(len(old), len(new))
    start = next((n for n in range(most) if old[n] != new[n]), most)
    most -= start
    end = next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)
    return start, end


def _pairs(old: Sequence[str], new: Sequence[str], start: int, end: int) -> list[tuple[int, int]]:
    """Return the positions of lines that are in both pages, in ascending order.

    Args:
        old: The lines of one page.
        new: The lines of the other page.
        start: How many lines are equal at the start, and so have the same positions.
        end: How many lines to leave out at the end.
    """
    old_children = _children(old[: len(old) - end], start)
    new_children = _children(new[: len(new) - end], start)
    pairs = []
    todo = deque((place, place) for place in new_children if place < start)
    while todo:
        from_, to = todo.popleft()
        were = old_children.get(from_, {})
        both = [(were[key], at) for key, at in new_children.get(to, {}).items() if key in were]
        for pair in _longest_ascending(both):
            pairs.append(pair)
            if pair[1] in new_children:
                todo.append(pair)
    return sorted(pairs)


def _children(lines: Sequence[str], start: int) -> dict[int, dict[tuple[str, int], int]]:
    """Return the positions of each line's children from a position on, by ref or text.

    The key of the n-th of equal lines includes n.
    """
    children: dict[int, dict[tuple[str, int], int]] = {}
    seen: Counter[tuple[int, str]] = Counter()
    parents = _parents(lines)
    for place in range(start, len(lines)):
        line, parent = lines[place], parents[place]
        found = _REF.match(line)
        key = found[0] if found is not None else line
        children.setdefault(parent, {})[key, seen[parent, key]] = place
        seen[parent, key] += 1
    return children


def _longest_ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subset of pairs with ascending first positions; the second ones ascend."""
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for number, (first, _) in enumerate(pairs):
        length = bisect.bisect_left(ends, first)
        if length == len(ends):
            ends.append(first)
            at.append(number)
        else:
            ends[length], at[length] = first, number
        before.append(at[length - 1] if length else -1)
    chain = []
    number = at[-1] if at else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]
