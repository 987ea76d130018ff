"""Build observations: turn what a session saw into channels, and add pictures when due."""

from __future__ import annotations

import asyncio
import colorsys
import functools
import io
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from webtraj import errors as errors_lib
from webtraj.environments.browser import observation as observation_lib
from webtraj.environments.browser import session as session_lib
from webtraj.environments.browser import tasks as tasks_lib
from webtraj.environments.browser import traffic as traffic_lib
from webtraj.environments.browser.secret_keeper import NO_PILLOW, Box, SecretKeeper, take_snapshot

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont

__all__ = [
    "Observer",
    "aria_snapshot",
    "describe_action",
    "Camera",
    "Rgb",
    "color_of",
    "draw_marks",
    "ink_on",
    "place_label",
    "rework",
]

# What a session saw, as channels.

_MOST_CHARACTERS = 2_000_000
_SHORTEST_CUT = 200


def _strings(values: Iterable[str]) -> NDArray[np.str_]:
    """Return strings as an array of the `Strings` spec.

    Every element takes the space of the longest one, so a hostile page could fill the memory. So
    very long strings are cut off, and end in `…`.
    """
    whole = list(values)
    most = max(_SHORTEST_CUT, _MOST_CHARACTERS // max(len(whole), 1))
    cut = [text if len(text) <= most else f"{text[: most - 1]}…" for text in whole]
    return np.array(cut, dtype=np.str_)


class Observer:
    """A builder of one environment's observations.

    Args:
        observe: What to observe.
        keeper: Gets the places of secrets in screenshots.
    """

    def __init__(self, observe: observation_lib.Observe, keeper: SecretKeeper) -> None:
        self._observe = observe
        self.camera = Camera(observe, keeper)
        self.axtree = ""
        """The tree of the last observation; empty if there is none."""
        self._axtree_before = ""
        self._events: dict[str, list[Any]] = {}

    def snapshot(self) -> tuple[str, Mapping[str, Sequence[Any]]]:
        """Return what `restore` needs to build the last observation again."""
        return self._axtree_before, {name: tuple(found) for name, found in self._events.items()}

    def restore(self, snapshot: tuple[str, Mapping[str, Sequence[Any]]]) -> None:
        """Build the next observation, one with `again`, as if it followed the snapshot."""
        self._axtree_before, events = snapshot
        self._events = {name: list(found) for name, found in events.items()}

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
        last_action: observation_lib.LastAction,
        begun: float,
        acted: float,
        again: bool = False,
    ) -> dict[str, Any]:
        """Build an observation, with pictures if they are due.

        Args:
            session: The session that was observed.
            seen: The result of `BrowserSession.look`.
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
            self._axtree_before, self._events = self.axtree, {}
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
                    observation["tabs"] = _strings(seen["tabs"])
                    observation["active_tab"] = seen["active_tab"]
                case "dialogs":
                    observation["dialogs"] = _strings(dialogs)
                case "blocked":
                    observation["blocked"] = _strings(blocked)
                case "downloads":
                    files = self._since("downloads", session.downloads.take())
                    observation["downloads"] = _downloads(files)
                case "console":
                    observation["console"] = _strings(console)
                case "http_status":
                    observation["http_status"] = session.http_status
                case "network":
                    observation["network"] = await session.take_traffic()
                case "last_action":
                    observation["last_action"] = last_action
                case "timings":
                    now = time.perf_counter()
                    observation["timings"] = observation_lib.Timings(
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
        self.axtree = seen.get("axtree", "")
        return observation

    def _since(self, channel: str, events: Iterable[Any]) -> list[Any]:
        """Return a channel's events since the last observation that counts."""
        found = self._events.setdefault(channel, [])
        found += events
        return found

    def _changes(self, axtree: str, *, first: bool) -> Any:
        before = axtree if first else self._axtree_before
        return _strings(observation_lib.changes_between(before, axtree))


def describe_action(
    touched: Mapping[str, Any] | None = None, *, error: str = "", error_kind: str = ""
) -> observation_lib.LastAction:
    """Return an action's result, before the page has settled. Default: the result of no action.

    Args:
        touched: The page script's description of the action's element, if any.
        error: Why it failed; empty if it succeeded.
        error_kind: The kind of error, in one word.
    """
    found = touched or {}
    return observation_lib.LastAction(
        error=error,
        error_kind=error_kind,
        ref=found.get("ref", ""),
        role=found.get("role", ""),
        name=found.get("name", ""),
        test_id=found.get("test_id", ""),
        named_by=found.get("named_by", ""),
        selector=found.get("selector", ""),
        frame=found.get("frame", ""),
        box=np.array(found.get("box", (0, 0, 0, 0)), dtype=np.float64),
        settled="",
    )


def _downloads(files: Sequence[traffic_lib.DownloadedFile]) -> observation_lib.Downloads:
    contents = np.empty(len(files), dtype=object)
    contents[:] = [file.content for file in files]
    return observation_lib.Downloads(
        names=_strings(file.name for file in files),
        urls=_strings(file.url for file in files),
        mime_types=_strings(file.mime_type for file in files),
        sizes=np.array([file.size for file in files], dtype=np.int64),
        contents=contents,
        errors=_strings(file.error for file in files),
    )


def _boxes(seen: Mapping[str, Any]) -> observation_lib.Boxes:
    return observation_lib.Boxes(
        refs=_strings(seen["refs"]),
        boxes=np.array(seen["boxes"], dtype=np.float64).reshape(-1, 4),
    )


def _task_info(verdict: tasks_lib.Verdict) -> observation_lib.TaskInfo:
    return observation_lib.TaskInfo(
        raw_reward=float(verdict.raw_reward),
        scaled_reward=float(verdict.scaled_reward),
        success=verdict.success,
        reason=verdict.reason,
    )


# Scaling and drawing on encoded pictures. Pillow is loaded on first use.

_FAST: Final[Mapping[str, Mapping[str, Any]]] = {
    "png": {"compress_level": 1},
    "webp": {"method": 0},
}
"""Settings of the encoders that trade bytes for CPU."""


def rework(
    picture: bytes,
    *,
    picture_format: observation_lib.PictureFormat,
    quality: int,
    scale: float = 1.0,
    draw: Callable[[Image.Image], None] | None = None,
) -> bytes:
    """Draw on a picture and scale it. Takes tens of ms: do not call it on the event loop.

    Args:
        picture: A JPEG, WebP or PNG.
        picture_format: The format to return it in.
        quality: 1 to 100, for JPEG and WebP.
        scale: Size relative to `picture`; above 0, at most 1.
        draw: Draws on the RGB picture before it is scaled.

    Raises:
        MissingDependencyError: Pillow is not installed.
        OSError: `picture` cannot be read.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise errors_lib.missing_dependency(NO_PILLOW, "web") from error
    with Image.open(io.BytesIO(picture)) as opened:
        width, height = opened.size
        size = max(1, round(width * scale)), max(1, round(height * scale))
        if draw is None:
            opened.draft("RGB", size)  # Decodes a JPEG no larger than needed.
        image = opened.convert("RGB")
    if draw is not None:
        draw(image)
    if image.size != size:
        image = image.resize(size, Image.Resampling.BOX, reducing_gap=2.0)
    encoded = io.BytesIO()
    image.save(encoded, format=picture_format, quality=quality, **_FAST.get(picture_format, {}))
    return encoded.getvalue()


# Set-of-marks pictures: numbered boxes over the actionable elements.
#
# The boxes are drawn on the screenshot, never in the page. (Yang et al., Set-of-Mark
# Prompting, 2023.)


Rgb = tuple[int, int, int]

_GOLDEN: Final = 0.618033988749895
"""The step between hues, so that consecutive numbers get distinct colours."""

_FONT_SIZE: Final = 12
_PADDING: Final = 2
_LINE: Final = 2
"""Width of a box's outline in pixels."""


def draw_marks(
    image: Image.Image,
    boxes: Sequence[Sequence[float]],
    *,
    viewport: tuple[float, float],
    seed: int = 0,
) -> None:
    """Draw boxes with their numbers, from 1, on a picture.

    Args:
        image: The picture, in RGB.
        boxes: x, y, width and height of each in CSS pixels of the viewport.
        viewport: Width and height in CSS pixels of what the picture shows.
        seed: Fixes the colours.
    """
    from PIL import ImageDraw, ImageFont

    across, down = image.width / viewport[0], image.height / viewport[1]
    scaled = [
        (x * across, y * down, (x + width) * across, (y + height) * down)
        for x, y, width, height in boxes
    ]
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(_FONT_SIZE * max(1.0, across))
    for number, box in enumerate(scaled, 1):
        left, top, right, bottom = box
        outline = (left, top, max(right - 1, left), max(bottom - 1, top))
        pen.rectangle(outline, outline=color_of(number, seed), width=_LINE)
    # Labels come last, so that no box is drawn over one.
    placed, around = np.empty((len(scaled), 4)), _array(scaled)
    for number, box in enumerate(scaled, 1):
        label = place_label(
            box,
            _label_size(pen, font, number),
            placed=placed[: number - 1],
            boxes=around,
            size=image.size,
        )
        placed[number - 1] = label
        _draw_label(pen, font, number, label, color_of(number, seed))


def color_of(number: int, seed: int = 0) -> Rgb:
    """Return a mark's colour: strong, and deterministic for a number and seed."""
    first = random.Random(seed).random()
    red, green, blue = colorsys.hls_to_rgb((first + number * _GOLDEN) % 1.0, 0.42, 0.9)
    return round(red * 255), round(green * 255), round(blue * 255)


def ink_on(color: Rgb) -> Rgb:
    """Return black or white, whichever has more contrast (WCAG 2) on a colour."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in color)
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # The luminance at which (1 + 0.05) / (l + 0.05) equals (l + 0.05) / 0.05.
    return (255, 255, 255) if luminance < 0.1791 else (0, 0, 0)


def place_label(
    box: Box,
    label: tuple[float, float],
    *,
    placed: ArrayLike,
    boxes: ArrayLike,
    size: tuple[int, int],
) -> Box:
    """Return a place for a label: near its box, in the picture, covering as little as possible.

    Covering other labels is worst, then covering other elements. The first of equal candidates
    wins.

    Args:
        box: The element's box.
        label: Width and height of the label.
        placed: The labels placed so far, one per row, as an array or a list.
        boxes: The boxes of all marked elements, in the same form.
        size: Width and height of the picture.
    """
    places = [_within(place, size) for place in _places_near(box, label)]
    around = _array(boxes)
    on_labels = _overlaps(places, _array(placed))
    on_others = _overlaps(places, around[(around != box).any(axis=1)])
    ranks = range(len(places))
    return places[min(ranks, key=lambda rank: (on_labels[rank], on_others[rank], rank))]


def _array(boxes: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(boxes, dtype=np.float64).reshape(-1, 4)


def _overlaps(places: Sequence[Box], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the total area that each place shares with all boxes."""
    here = _array(places)[:, None]
    shared = np.minimum(here[..., 2:], others[:, 2:]) - np.maximum(here[..., :2], others[:, :2])
    return np.asarray(shared.clip(min=0).prod(axis=-1).sum(axis=-1))


def _places_near(box: Box, label: tuple[float, float]) -> Iterator[Box]:
    left, top, right, bottom = box
    width, height = label
    for x, y in (
        (left, top - height),
        (right - width, top - height),
        (left - width, top),
        (right, top),
        (left, bottom),
        (right - width, bottom),
        (left, top),
        (right - width, top),
        (left, bottom - height),
        (right - width, bottom - height),
    ):
        yield x, y, x + width, y + height


def _within(place: Box, size: tuple[int, int]) -> Box:
    left, top, right, bottom = place
    x = min(max(left, 0.0), max(size[0] - (right - left), 0.0))
    y = min(max(top, 0.0), max(size[1] - (bottom - top), 0.0))
    return x, y, x + right - left, y + bottom - top


def _label_size(
    pen: ImageDraw.ImageDraw, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, number: int
) -> tuple[float, float]:
    left, top, right, bottom = pen.textbbox((0, 0), str(number), font=font)
    return right - left + 2 * _PADDING, bottom - top + 2 * _PADDING


def _draw_label(
    pen: ImageDraw.ImageDraw,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    number: int,
    place: Box,
    color: Rgb,
) -> None:
    pen.rectangle((place[0], place[1], place[2] - 1, place[3] - 1), fill=color)
    left, top, _, _ = pen.textbbox((0, 0), str(number), font=font)
    at = (place[0] + _PADDING - left, place[1] + _PADDING - top)
    pen.text(at, str(number), fill=ink_on(color), font=font)


# A session's pictures for observations: screenshot and set of marks from one capture.


class Camera:
    """A camera that takes the requested pictures.

    Args:
        observe: What to observe.
        keeper: Gets the places of secrets in pictures.
    """

    def __init__(self, observe: observation_lib.Observe, keeper: SecretKeeper) -> None:
        self._observe = observe
        self._keeper = keeper
        self.asked = False
        """Whether the step's action asks for a picture."""

    def is_due(self, step: int) -> bool:
        """Return whether a step, counted from 0, needs a picture."""
        wanted = {"screenshot", "set_of_marks"}.intersection(self._observe.channels)
        stride = self._observe.screenshot_stride
        return bool(wanted) and (self.asked or (stride > 0 and step % stride == 0))

    def may_shoot_early(self, step: int) -> bool:
        """Return whether the capture may start before the page has been read."""
        # To cover secrets, the page is searched before and after the capture.
        return self.is_due(step) and not self._keeper.covers

    async def pictures(
        self, session: session_lib.BrowserSession, seen: Mapping[str, Any], *, step: int
    ) -> dict[str, Any]:
        """Return the channels `screenshot` and `set_of_marks`, empty on steps without pictures.

        Args:
            session: Where to look.
            seen: The result of `BrowserSession.look`, with an early capture if one was taken.
            step: The step's number in its episode, from 0.

        Raises:
            BrowserError: The browser failed.
            MissingDependencyError: Pillow is needed and not installed.
        """
        if not self.is_due(step):
            return {"screenshot": b"", "set_of_marks": _marks(b"", None)}
        channels = self._observe.channels
        if seen.get("capture") == b"":  # It was seen at a moment that is over.
            return {"screenshot": b"", "set_of_marks": _marks(b"", seen.get("marks"))}
        if self._keeper.covers:
            capture, secrets = await self._capture_with_secrets(session)
        else:
            capture, secrets = seen.get("capture") or await session.screenshot(), []
        viewport = await session.viewport()
        taken: dict[str, Any] = {}
        if "screenshot" in channels:
            taken["screenshot"] = await self._rework(capture)
            self._keeper.cover(taken["screenshot"], secrets, viewport)
        if "set_of_marks" in channels:
            marks = seen["marks"]
            draw = functools.partial(
                draw_marks,
                boxes=marks["boxes"],
                viewport=viewport,
                seed=self._observe.marks_seed,
            )
            image = await self._rework(capture, draw if marks["boxes"] else None)
            self._keeper.cover(image, secrets, viewport)
            taken["set_of_marks"] = _marks(image, marks)
        return taken

    async def _capture_with_secrets(
        self, session: session_lib.BrowserSession
    ) -> tuple[bytes, list[Box] | None]:
        """Return a screenshot and the boxes of its secrets; None if they are unknown."""
        # The page may move meanwhile, so cover what it showed before and after.
        before = await take_snapshot(session, self._keeper.selector)
        capture = await session.screenshot(self._picture_format)
        after = await take_snapshot(session, self._keeper.selector)
        return capture, self._keeper.boxes(before, after)

    @property
    def _picture_format(self) -> observation_lib.PictureFormat:
        asked = self._observe.screenshot_format
        # In WebP, a secret shows in pixels far from it: each block is predicted from others.
        return "jpeg" if asked == "webp" and self._keeper.covers else asked

    async def _rework(self, capture: bytes, draw: Any = None) -> bytes:
        if draw is None and self._observe.screenshot_scale == 1:
            return capture
        # Pillow takes tens of ms, during which other environments continue.
        return await asyncio.to_thread(
            rework,
            capture,
            picture_format=self._picture_format,
            quality=self._observe.screenshot_quality,
            scale=self._observe.screenshot_scale,
            draw=draw,
        )


def _marks(image: bytes, marks: Mapping[str, Any] | None) -> observation_lib.SetOfMarks:
    marks = marks or {"refs": [], "roles": [], "names": [], "boxes": []}
    return observation_lib.SetOfMarks(
        image=image,
        refs=_strings(marks["refs"]),
        roles=_strings(marks["roles"]),
        names=_strings(marks["names"]),
        boxes=np.array(marks["boxes"], dtype=np.float64).reshape(-1, 4),
    )


# Playwright's ARIA snapshot of a page, with our refs in it and without passwords.
#
# Playwright writes `[ref=e5]` and knows these names only until its next snapshot. Each is replaced
# by the ref that all other channels and actions use, `[ref=12]`: Playwright says where the element
# is in its document, and the page script finds it there. An element that it cannot find, such as
# one in a frame of another origin, keeps its line and has no ref.

_THEIR_REF = re.compile(r" \[ref=((?:f\d+)?e\d+)\]")
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
