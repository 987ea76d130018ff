r"""Observations of a browser environment: a dict with a key for each requested channel.

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
the file name of an image without a name. A password's value shows as bullets. Hidden elements and
plain wrappers have no line. A frame of another origin that does not answer in time has a line `...
no answer` inside; frames beyond the tenth, or more than three deep, have no content. A ref names
the same element for as long as it is in the page, and is never reused within an episode. A page
longer than `Observe.axtree_limit` characters is cut off; the last line `... 123 more lines` counts
the rest.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict, cast

import numpy as np
from dm_env import specs
from numpy.typing import NDArray

from webtraj import errors as errors_lib
from webtraj.environments.browser import (
    access as access_lib,
)
from webtraj.environments.browser import (
    changes as changes_lib,
)
from webtraj.environments.browser import (
    screenshot as screenshot_lib,
)
from webtraj.environments.browser import (
    secrecy as secrecy_lib,
)
from webtraj.environments.browser import (
    session as session_lib,
)
from webtraj.environments.browser import (
    tasks as tasks_lib,
)

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
    "Observer",
    "Ref",
    "Rows",
    "ScrollExtents",
    "SetOfMarks",
    "Strings",
    "TaskInfo",
    "Timings",
    "aria_refs_in",
    "aria_snapshot",
    "captions_in",
    "describe_action",
    "observation_spec",
    "refs_in",
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
    """`title` if it has a name but no text; `icon` if its style adds a character to its name."""
    selector: str
    """A CSS selector for it in its document."""
    frame: str
    """URL of its frame; empty for the top document."""
    box: NDArray[np.float64]
    """Its box as x, y, width, height in CSS pixels of the viewport; shape (4,)."""
    settled: str
    """How the wait for the page ended: quiet, cap, or navigated."""


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
    """The task's verdict on the step, beside the reward. Not shown to the agent."""

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
    """The viewport as an encoded JPEG or PNG; empty on steps that `screenshot_stride` skips."""
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


CHANNELS: Final = (
    "goal",
    "url",
    "title",
    "axtree",
    "changes",
    "boxes",
    "aria",
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
    "network",
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
    """Settings for observations. A channel that is not requested costs nothing."""

    channels: tuple[str, ...] = DEFAULT_CHANNELS
    """Names from `CHANNELS`."""
    screenshot_format: Literal["jpeg", "png"] = "jpeg"
    screenshot_quality: int = 80
    """1 to 100, for JPEG."""
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
        if self.screenshot_format not in ("jpeg", "png"):
            raise errors_lib.InvalidInputError(
                f"screenshot_format must be 'jpeg' or 'png'; got {self.screenshot_format!r}."
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
    def of(cls, value: Observe | Iterable[str] | None) -> Observe:
        """Convert `value`: an `Observe`, channel names, or None for the default."""
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls((value,))
        return cls(tuple(cast("Iterable[str]", value)))


def strings(values: Iterable[str]) -> NDArray[np.str_]:
    """Return strings as an array of the `Strings` spec."""
    return np.array(list(values), dtype=np.str_)


def no_action() -> LastAction:
    """Return the value of `last_action` before any action."""
    return LastAction(
        error="",
        error_kind="",
        ref="",
        role="",
        name="",
        test_id="",
        named_by="",
        selector="",
        frame="",
        box=np.zeros(4),
        settled="",
    )


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
    rf"(?P<states>(?: [a-z]+(?:=(?:{_STRING}|\w+))?)*)$",
    re.MULTILINE,
)
_TEXT_LINE = re.compile(rf"^ *text (?P<text>{_STRING})$")
_STATE = re.compile(rf"[a-z]+(?:=(?:{_STRING}|\w+))?")


def text_in(line: str) -> str | None:
    r"""Return the text of an axtree's text line; None for any other line.

    >>> text_in('  text "Hi"'), text_in('[1] button "Hi"')
    ('Hi', None)
    """
    found = _TEXT_LINE.match(line)
    return None if found is None else str(json.loads(found["text"]))


def refs_in(axtree: str) -> list[Ref]:
    r"""Return the elements of an axtree, in order.

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
    spec = {key: _string(key) for key in no_action()}
    spec["box"] = specs.Array(shape=(4,), dtype=np.float64, name="box")
    return spec


def _string(name: str) -> specs.StringArray:
    return specs.StringArray(shape=(), name=name)


def _number(name: str) -> specs.Array:
    return specs.Array(shape=(), dtype=float, name=name)


# Building an observation from what a session saw.


class Observer:
    """A builder of one environment's observations.

    Args:
        observe: What to observe.
        keeper: Is told where screenshots show secrets.
    """

    def __init__(self, observe: Observe, keeper: secrecy_lib.SecretKeeper) -> None:
        self._observe = observe
        self.camera = screenshot_lib.Camera(observe, keeper)
        self._last_axtree = self._axtree_before = ""
        self._events: dict[str, list[Any]] = {}

    async def observation(
        self,
        session: session_lib.BrowserSession,
        seen: Mapping[str, Any],
        *,
        blocked: Sequence[str],
        step: int,
        goal: str,
        hidden: str,
        verdict: tasks_lib.Verdict,
        last_action: LastAction,
        begun: float,
        acted: float,
        again: bool = False,
    ) -> dict[str, Any]:
        """Build an observation, with pictures if they are due.

        Args:
            session: Where it was seen.
            seen: What `BrowserSession.look` gave.
            blocked: What was blocked since the last observation.
            step: The step's number in its episode, from 0.
            goal: The episode's goal.
            hidden: A CSS selector of elements left out of the ARIA snapshot.
            verdict: The task's verdict on the step.
            last_action: The action's result; the settling result is filled in.
            begun: When the step began, by `time.perf_counter`.
            acted: When the action was done.
            again: Whether it takes the place of the last one, with what happened since then.
        """
        looked = time.perf_counter()
        pictures = await self.camera.pictures(session, seen, step=step)
        if not again:
            self._axtree_before, self._events = self._last_axtree, {}
        dialogs, console = map(self._since, ("dialogs", "console"), session.take_events())
        blocked = self._since("blocked", blocked)
        last_action["settled"] = seen["settle"]["ended"]
        observation: dict[str, Any] = {}
        for channel in self._observe.channels:
            match channel:
                case "goal":
                    observation["goal"] = goal
                case "screenshot" | "set_of_marks":
                    observation[channel] = pictures[channel]
                case "scroll":
                    observation["scroll"] = {k: float(v) for k, v in seen["scroll"].items()}
                case "changes":
                    observation["changes"] = self._changes(seen["axtree"], first=step == 0)
                case "aria":
                    observation["aria"] = await aria_snapshot(
                        session, hidden=hidden, limit=self._observe.axtree_limit
                    )
                case "boxes":
                    observation["boxes"] = _boxes(seen["boxes"])
                case "tabs":
                    observation["tabs"] = strings(seen["tabs"])
                    observation["active_tab"] = seen["active_tab"]
                case "dialogs":
                    observation["dialogs"] = strings(dialogs)
                case "blocked":
                    observation["blocked"] = strings(blocked)
                case "downloads":
                    files = self._since("downloads", session.downloads.take())
                    observation["downloads"] = _downloads(files)
                case "console":
                    observation["console"] = strings(console)
                case "http_status":
                    observation["http_status"] = session.http_status
                case "network":
                    observation["network"] = await session.take_traffic()
                case "last_action":
                    observation["last_action"] = last_action
                case "timings":
                    now = time.perf_counter()
                    observation["timings"] = Timings(
                        act=acted - begun,
                        settle=seen["settle"]["ms"] / 1e3,
                        observe=seen["ms"] / 1e3,
                        pictures=seen.get("capture_seconds", 0.0) + now - looked,
                        total=now - begun,
                        waiting=session.lease.turns.take_waited(),
                    )
                case "info":
                    observation["info"] = _task_info(verdict)
                case _:
                    observation[channel] = seen[channel]
        self._last_axtree = seen.get("axtree", "")
        return observation

    def _since(self, channel: str, events: Iterable[Any]) -> list[Any]:
        """Return a channel's events since the last observation that was kept."""
        found = self._events.setdefault(channel, [])
        found += events
        return found

    def _changes(self, axtree: str, *, first: bool) -> Any:
        before = axtree if first else self._axtree_before
        return strings(changes_lib.changes_between(before, axtree))


def describe_action(
    touched: Mapping[str, Any] | None, *, error: str, error_kind: str
) -> LastAction:
    """Return an action's result, without settling and timings.

    Args:
        touched: The page script's description of the action's element, if any.
        error: Why it failed; empty if it succeeded.
        error_kind: The same in one word.
    """
    last_action = no_action()
    last_action["error"] = error
    last_action["error_kind"] = error_kind
    if touched:
        last_action["ref"] = touched["ref"]
        last_action["role"] = touched["role"]
        last_action["name"] = touched["name"]
        last_action["test_id"] = touched["test_id"]
        last_action["named_by"] = touched["named_by"]
        last_action["selector"] = touched["selector"]
        last_action["frame"] = touched["frame"]
        last_action["box"] = np.asarray(touched["box"], dtype=np.float64)
    return last_action


def _downloads(files: Sequence[access_lib.DownloadedFile]) -> Downloads:
    contents = np.empty(len(files), dtype=object)
    contents[:] = [file.content for file in files]
    return Downloads(
        names=strings(file.name for file in files),
        urls=strings(file.url for file in files),
        mime_types=strings(file.mime_type for file in files),
        sizes=np.array([file.size for file in files], dtype=np.int64),
        contents=contents,
        errors=strings(file.error for file in files),
    )


def _boxes(seen: Mapping[str, Any]) -> Boxes:
    return Boxes(
        refs=strings(seen["refs"]),
        boxes=np.array(seen["boxes"], dtype=np.float64).reshape(-1, 4),
    )


def _task_info(verdict: tasks_lib.Verdict) -> TaskInfo:
    return TaskInfo(
        raw_reward=float(verdict.raw_reward),
        scaled_reward=float(verdict.scaled_reward),
        success=verdict.success,
        reason=verdict.reason,
    )


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


# Playwright's ARIA snapshot of a page, with our refs in it and without passwords.
#
# Playwright writes `[ref=e5]` and knows these names only until its next snapshot. Each is replaced
# by the ref that all other channels and actions use, `[ref=12]`: Playwright says where the element
# is in its document, and the page script finds it there. An element that it cannot find, such as
# one in a frame of another origin, keeps its line and has no ref.

_THEIR_REF = re.compile(r" \[ref=((?:f\d+)?e\d+)\]")
_OUR_REF = re.compile(r"\[ref=([A-Za-z0-9]+)\]")
_ARIA_VALUE = re.compile(r"(\[ref=[A-Za-z0-9]+\](?: \[[^\]]*\])*): .*")
_ARIA_TEXT = re.compile(r"^( *- text: ).*")
_BULLETS = "\u2022" * 4
_ARIA_SECONDS = 5.0

_PATH = """element => {
  const path = [];
  for (let node = element; node;) {
    if (node.parentNode) {
      path.push([...node.parentNode.childNodes].indexOf(node));
      node = node.parentNode;
    } else if (node.host) {
      path.push("shadow");
      node = node.host;
    } else {
      let frame = null;
      try { frame = node.defaultView?.frameElement ?? null; } catch { return null; }
      if (!frame && node.defaultView !== node.defaultView?.top) return null;
      if (frame) path.push("frame");
      node = frame;
    }
  }
  return path.reverse();
}"""


def aria_refs_in(snapshot: str) -> list[str]:
    r"""Return the refs in a snapshot, in order.

    >>> aria_refs_in('- main [ref=1]:\n  - button "Go" [ref=2]')
    ['1', '2']
    """
    return _OUR_REF.findall(snapshot)


async def aria_snapshot(session: session_lib.BrowserSession, *, hidden: str, limit: int) -> str:
    """Return the snapshot of the active tab; empty if the page navigates meanwhile.

    Args:
        session: The session.
        hidden: A CSS selector of elements to leave out.
        limit: The longest snapshot, in characters; the rest is cut off and counted.

    Raises:
        BrowserError: The browser failed.
    """
    page = session.page
    try:
        text = await session.run(
            page.aria_snapshot(mode="ai", timeout=_ARIA_SECONDS * 1e3), "take an ARIA snapshot"
        )
        theirs = list(dict.fromkeys(_THEIR_REF.findall(text)))
        paths = await asyncio.gather(*(_path(page, ref) for ref in theirs))
        found = await session.elements_at(paths, hidden=hidden)
    except errors_lib.BrowserCrashedError:
        raise
    except errors_lib.BrowserError:
        return ""
    return _rewritten(text.split("\n"), dict(zip(theirs, found, strict=True)), limit)


async def _path(page: Any, ref: str) -> Any:
    import playwright.async_api

    try:
        return await page.locator(f"aria-ref={ref}").evaluate(_PATH, timeout=_ARIA_SECONDS * 1e3)
    except playwright.async_api.Error:  # Gone, or in a frame that is.
        return None


def _rewritten(lines: list[str], found: dict[str, Any], limit: int) -> str:
    kept: list[str] = []
    size = 0
    dropped = secret = -1
    """The indents of the element whose lines are dropped, or whose texts are secret."""
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        dropped = -1 if indent <= dropped else dropped
        secret = -1 if indent <= secret else secret
        if dropped >= 0:
            continue
        theirs = _THEIR_REF.search(line)
        ours = found.get(theirs[1]) if theirs else None
        if theirs is not None:
            line = _THEIR_REF.sub(f" [ref={ours['ref']}]" if ours else "", line, count=1)
        if ours and ours["hidden"]:
            dropped = indent
            continue
        if ours and ours["password"]:
            secret = indent
            line = _ARIA_VALUE.sub(rf"\1: {_BULLETS}", line)
        elif secret >= 0:
            line = _ARIA_TEXT.sub(rf"\1{_BULLETS}", line)
        size += len(line) + 1
        if size > limit:
            return "\n".join([*kept, f"... {len(lines) - number} more lines"])
        kept.append(line)
    return "\n".join(kept)
