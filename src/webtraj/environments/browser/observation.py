r"""What a browser environment shows: a dict with a key for each channel asked for.

The `axtree` channel is the page as text, a line for each element::

    line   = indent "[" ref "] " role [" " name] {" " state} | indent "text " string
    indent = two spaces for each enclosing line
    ref    = letters and digits; what actions call the element
    role   = an ARIA role; "generic" for a plain element; an SVG shape's tag
    name   = string
    string = a JSON string
    state  = "checked" | "selected" | "pressed" | "disabled" | "readonly" | "focused"
           | "multiline" | "scrollable" | "expanded=" bool | "level=" digits | "value=" string
           | "fill=" string | "color=" string | "image=" string

`fill` is an SVG shape's colour, `color` the background of a plain element without content, `image`
the file name of an image that has no words. A password's value shows as bullets. Elements that are
hidden, or plain wrappers of others, have no line. A frame of another origin whose document does not
answer in time has a line `... no answer` inside; frames beyond the tenth, or more than three deep,
have none. A ref names the same element for as long as that is in the page, and is never given to
another within an episode. Of a page that takes more than `Observe.axtree_limit` characters the rest
is left out; a last line `... 123 more lines` tells how much.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from webtraj import errors as errors_lib

__all__ = [
    "CHANNELS",
    "DEFAULT_CHANNELS",
    "BrowserObservation",
    "Boxes",
    "Downloads",
    "LastAction",
    "Observe",
    "Ref",
    "ScrollExtents",
    "SetOfMarks",
    "TaskInfo",
    "Timings",
    "refs_in",
    "text_in",
]


class LastAction(TypedDict):
    """How the last action went. Empty strings and zeros on the first step."""

    error: str
    """Why it was not done, as a sentence for the agent; empty if it was done."""
    error_kind: str
    """The same in one word for counting: unknown_ref, gone, hidden, covered, disabled, ..."""
    ref: str
    """The element acted on; this and the next six are empty if there was none."""
    role: str
    name: str
    test_id: str
    """Its `data-testid`, or a like attribute."""
    selector: str
    """A CSS selector that finds it in its document."""
    frame: str
    """URL of the frame that it is in; empty for the top document."""
    box: NDArray[np.float64]
    """Its box as x, y, width, height in CSS pixels of the viewport; shape (4,)."""
    settled: str
    """How the wait for the page ended: quiet, cap, or navigated."""


class Timings(TypedDict):
    """Where the time of a step went, in seconds. Acting takes none on the first step."""

    act: float
    """Doing the action,"""
    settle: float
    """waiting for the page to settle,"""
    observe: float
    """reading the page, as the page counts it,"""
    pictures: float
    """and what screenshot and set of marks took beyond that, since they overlap with it."""
    total: float
    """From the action to the observation, with calls into the browser and the task's verdict."""
    waiting: float
    """How much of it went into waiting for turns, where the pool limits its operations."""


class ScrollExtents(TypedDict):
    """Where the top document is scrolled to, in CSS pixels."""

    x: float
    y: float
    width: float
    """Width of the viewport."""
    height: float
    page_width: float
    """Width of the whole page."""
    page_height: float


class Boxes(TypedDict):
    """Where the axtree's elements are, those that have some area inside the viewport."""

    refs: NDArray[np.str_]
    """Their refs, in the axtree's order; shape (n,)."""
    boxes: NDArray[np.float64]
    """x, y, width and height of each, in CSS pixels of the viewport; shape (n, 4)."""


class SetOfMarks(TypedDict):
    """A screenshot with numbered boxes over the elements that can be acted on.

    Marked are enabled elements of interactive roles, or with a handler, that lie on top somewhere
    in the viewport. Mark n, counted from 1, is the element at index n - 1.
    """

    image: bytes
    """An encoded image, as `screenshot`; empty on steps that `screenshot_stride` skips."""
    refs: NDArray[np.str_]
    """The ref of each mark; shape (n,), as are roles and names."""
    roles: NDArray[np.str_]
    names: NDArray[np.str_]
    boxes: NDArray[np.float64]
    """x, y, width and height of what is seen of each, in CSS pixels of the viewport; shape (n, 4).
    """


class Downloads(TypedDict):
    """Files that pages have offered and that have arrived since the last step; n of them."""

    names: NDArray[np.str_]
    """Plain file names, whatever the page called them; shape (n,), as are all."""
    urls: NDArray[np.str_]
    mime_types: NDArray[np.str_]
    """By the names' endings."""
    sizes: NDArray[np.int64]
    """In bytes; 0 of what did not arrive."""
    contents: NDArray[np.object_]
    """Their bytes; empty where the file is larger than `Observe.download_limit` or has failed."""
    errors: NDArray[np.str_]
    """Why they are not kept; empty where they are."""


class TaskInfo(TypedDict):
    """What the task says of the step, beside the reward. Not for the agent to see."""

    raw_reward: float
    """The reward before any scaling by time."""
    scaled_reward: float
    """The reward as the task scales it by the time taken."""
    success: bool
    """Whether the episode has succeeded, by the environment's rule."""
    reason: str
    """Why the task gave its reward, where it says."""


class BrowserObservation(TypedDict, total=False):
    """One observation. Only the channels asked for are there."""

    goal: str
    """What the agent is to do."""
    url: str
    title: str
    axtree: str
    """The page as text; the grammar stands at the top of this module."""
    changes: NDArray[np.str_]
    """Lines of the axtree that are new (`+ ...`) or gone (`- ...`) since the last step; indents are
    left out. Empty on the first step."""
    boxes: Boxes
    text: str
    """The page's visible text."""
    screenshot: bytes
    """The viewport as an encoded JPEG or PNG; empty on steps that `screenshot_stride` skips."""
    set_of_marks: SetOfMarks
    focused: str
    """Ref of the element with the keyboard focus; empty if there is none."""
    scroll: ScrollExtents
    tabs: NDArray[np.str_]
    """URLs of the open tabs, in order of opening; shape (number of tabs,)."""
    active_tab: int
    """Index of the tab that the observation shows; comes with `tabs`."""
    dialogs: NDArray[np.str_]
    """JavaScript dialogs since the last step, as `kind: message`; they were answered by policy."""
    blocked: NDArray[np.str_]
    """What was kept from pages and agent since the last step, as `url: reason`: requests that the
    network policy denies, pages that a tab was sent back from, downloads."""
    downloads: Downloads
    console: NDArray[np.str_]
    """Console errors and uncaught exceptions since the last step."""
    http_status: int
    """HTTP status of the document; 0 where there is none, as for a file."""
    last_action: LastAction
    timings: Timings
    info: TaskInfo


CHANNELS: Final = (
    "goal",
    "url",
    "title",
    "axtree",
    "changes",
    "boxes",
    "text",
    "screenshot",
    "set_of_marks",
    "focused",
    "scroll",
    "tabs",
    "dialogs",
    "blocked",
    "downloads",
    "console",
    "http_status",
    "last_action",
    "timings",
    "info",
)
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


@dataclasses.dataclass(frozen=True, slots=True)
class Observe:
    """What to observe. A channel that is not asked for costs nothing."""

    channels: tuple[str, ...] = DEFAULT_CHANNELS
    """Names out of `CHANNELS`."""
    screenshot_format: Literal["jpeg", "png"] = "jpeg"
    screenshot_quality: int = 80
    """1 to 100, for JPEG."""
    screenshot_scale: float = 1.0
    """Size of screenshots beside the viewport's; above 0, at most 1. For finer ones than CSS pixels
    give the context a `device_scale_factor`."""
    screenshot_stride: int = 1
    """Takes a screenshot on every how-many-th step; the first step always has one. Format, quality,
    scale and stride go for set-of-marks pictures too."""
    marks_seed: int = 0
    """Fixes the colours of a set of marks."""
    axtree_limit: int = 500_000
    """About how many characters of axtree are kept, indents aside."""
    download_limit: int = 10_000_000
    """The size in bytes of the largest downloaded file that is kept."""

    def __post_init__(self) -> None:
        channels = tuple(self.channels)
        unknown = sorted(set(channels) - set(CHANNELS))
        if unknown:
            raise errors_lib.InvalidInputError(
                f"Unknown observation channels {unknown}; there are {', '.join(CHANNELS)}."
            )
        if self.screenshot_format not in ("jpeg", "png"):
            raise errors_lib.InvalidInputError(
                f"screenshot_format is 'jpeg' or 'png'; got {self.screenshot_format!r}."
            )
        if not 0 < self.screenshot_scale <= 1:
            raise errors_lib.InvalidInputError(
                f"screenshot_scale is above 0 and at most 1; got {self.screenshot_scale}."
            )
        if self.axtree_limit < 1 or self.download_limit < 0:
            raise errors_lib.InvalidInputError(
                "axtree_limit is at least 1 and download_limit at least 0; got "
                f"{self.axtree_limit} and {self.download_limit}."
            )
        if not 1 <= self.screenshot_quality <= 100 or self.screenshot_stride < 1:
            raise errors_lib.InvalidInputError(
                "screenshot_quality is 1 to 100 and screenshot_stride at least 1; got "
                f"{self.screenshot_quality} and {self.screenshot_stride}."
            )
        ordered = tuple(channel for channel in CHANNELS if channel in channels)
        object.__setattr__(self, "channels", ordered)

    @classmethod
    def of(cls, value: Observe | Iterable[str] | None) -> Observe:
        """Returns what `value` asks for: an `Observe`, channel names, or None for the default."""
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls((value,))
        return cls(tuple(cast("Iterable[str]", value)))


def changes_between(before: str, after: str) -> list[str]:
    """Returns the lines by which two axtrees differ: what is gone, then what is new.

    >>> changes_between('[1] button "Go"', '[1] button "Stop"')
    ['- [1] button "Go"', '+ [1] button "Stop"']
    """
    old, new = ([line.strip() for line in tree.splitlines()] for tree in (before, after))
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    return [*_marked("-", old, gone), *_marked("+", new, come)]


def _marked(mark: str, lines: list[str], counted: Counter[str]) -> Iterator[str]:
    for line in lines:
        if counted[line]:
            counted[line] -= 1
            yield f"{mark} {line}"


def strings(values: Iterable[str]) -> NDArray[np.str_]:
    """Returns strings as the array that `Strings` describes."""
    return np.array(list(values), dtype=np.str_)


def no_action() -> LastAction:
    """Returns what `last_action` holds before any action."""
    return LastAction(
        error="",
        error_kind="",
        ref="",
        role="",
        name="",
        test_id="",
        selector="",
        frame="",
        box=np.zeros(4),
        settled="",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Ref:
    """An element as a line of the axtree shows it."""

    ref: str
    role: str
    name: str
    states: tuple[str, ...] = ()
    """Its states as they stand in the line: `checked`, `value="Anna"`."""


_STRING = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(
    rf"^ *\[(?P<ref>[^\]]+)\] (?P<role>\S+)(?: (?P<name>{_STRING}))?"
    rf"(?P<states>(?: [a-z]+(?:=(?:{_STRING}|\w+))?)*)$",
    re.MULTILINE,
)
_TEXT_LINE = re.compile(rf"^ *text (?P<text>{_STRING})$")
_STATE = re.compile(rf"[a-z]+(?:=(?:{_STRING}|\w+))?")


def text_in(line: str) -> str | None:
    r"""Returns the text of an axtree's line that is nothing but text; None for any other.

    >>> text_in('  text "Hi"'), text_in('[1] button "Hi"')
    ('Hi', None)
    """
    found = _TEXT_LINE.match(line)
    return None if found is None else str(json.loads(found["text"]))


def refs_in(axtree: str) -> list[Ref]:
    r"""Returns the elements of an axtree, in its order.

    >>> refs_in('[1] textbox "User" value="bob" focused\n  [2] button "Log in"\ntext "Hi"')[0]
    Ref(ref='1', role='textbox', name='User', states=('value="bob"', 'focused'))
    """
    return [
        Ref(
            ref=found["ref"],
            role=found["role"],
            name=json.loads(found["name"]) if found["name"] else "",
            states=tuple(_STATE.findall(found["states"])),
        )
        for found in _LINE.finditer(axtree)
    ]
