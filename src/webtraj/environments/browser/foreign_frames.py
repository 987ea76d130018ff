"""Frames of another origin: their lines in the observation, and acting on their elements.

The page script of a document cannot look into such a frame. So it also runs in each frame, in an
isolated world, and its result is merged in at the frame's place. Refs of a frame's document begin
with a prefix (`f2e`) that leads an action back to it. A frame that hangs, disappears or crashes
shows nothing inside and affects nothing else.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from webtraj import errors as errors_lib
from webtraj.environments.browser.page_script import (
    SCRIPT_PROPERTY,
    EnteredWorld,
    Send,
    World,
    enter_world,
    is_replaced,
    page_script,
    sender,
)

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

    from webtraj.environments.browser.listener import Listener
    from webtraj.environments.browser.session import BrowserSession

__all__ = ["ForeignFrames", "merge_frame"]

_NO_ANSWER: Final = {"axtree": "... no answer"}
"""The content shown for a frame that does not answer."""


def _outward(box: Sequence[float], matrix: Sequence[float]) -> list[float]:
    """Return the box around a frame's box in the surrounding window.

    Args:
        box: x, y, width and height in the frame's window.
        matrix: Nine numbers, column by column, from the frame's window to the surrounding one.

    >>> _outward([1, 2, 30, 40], [2, 0, 0, 0, 2, 0, 100, 200, 1])
    [102.0, 204.0, 60.0, 80.0]
    """
    columns = (matrix[:3], matrix[3:6], matrix[6:])
    x, y, width, height = box
    corners = [(x, y), (x + width, y), (x, y + height), (x + width, y + height)]
    seen = [
        [sum(map(operator.mul, row, (px, py, 1))) for row in zip(*columns, strict=True)]
        for px, py in corners
    ]
    in_front = [(across / depth, down / depth) for across, down, depth in seen if depth > 0]
    xs, ys = [x for x, _ in in_front] or [0.0], [y for _, y in in_front] or [0.0]
    return [round(n, 3) for n in (min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys))]


def merge_frame(seen: dict[str, Any], place: Mapping[str, Any], inside: Mapping[str, Any]) -> None:
    """Merge a frame's content into the content of the document around it.

    Args:
        seen: The result of the page script's `observe` for the document around. Modified in place.
        place: Where the frame is: its `ref`, its `line` in the axtree from 0, that line's `depth`,
            and the `matrix` from its window to the window around.
        inside: The result of `observe` in the frame.
    """
    if "axtree" in seen:
        _merge_axtree(seen, place, inside["axtree"])
    if "boxes" in inside:
        _merge_boxes(seen["boxes"], place, inside["boxes"])
    if "marks" in inside:
        for column in ("refs", "roles", "names"):
            seen["marks"][column] += inside["marks"][column]
        seen["marks"]["boxes"] += [
            _outward(box, place["matrix"]) for box in inside["marks"]["boxes"]
        ]
    if seen.get("focused") == place["ref"] and inside.get("focused"):
        seen["focused"] = inside["focused"]
    if inside.get("copied") is not None:
        seen["copied"] = inside["copied"]
    if inside.get("text"):
        seen["text"] = "\n".join(filter(None, [seen["text"], inside["text"]]))
    if "passwords" in inside:
        passwords, more = seen["passwords"], inside["passwords"]
        passwords["refs"] += more["refs"]
        passwords["values"] += more["values"]
        passwords["boxes"] += [_outward(box, place["matrix"]) for box in more["boxes"]]
        passwords["focused"] = passwords["focused"] or more["focused"]
    if "private" in inside:
        private, more = seen["private"], inside["private"]
        private["lines"] += more["lines"]
        private["pieces"] += more["pieces"]
        private["fields"] += [
            [name, ref, _outward(box, place["matrix"])] for name, ref, box in more["fields"]
        ]
        private["focused"] = private["focused"] or more["focused"]
        private["overflow"] = private["overflow"] or more["overflow"]


def _merge_axtree(seen: dict[str, Any], place: Mapping[str, Any], axtree: str) -> None:
    if not axtree:
        return
    lines = seen["axtree"].split("\n")
    indent = "  " * (place["depth"] + 1)
    at = place["line"] + 1
    lines[at:at] = [indent + line for line in axtree.split("\n")]
    seen["axtree"] = "\n".join(lines)


def _merge_boxes(
    boxes: dict[str, list[Any]], place: Mapping[str, Any], inside: Mapping[str, list[Any]]
) -> None:
    if place["ref"] not in boxes["refs"]:
        return  # The frame is outside the viewport, and so is all in it.
    at = boxes["refs"].index(place["ref"]) + 1
    boxes["refs"][at:at] = inside["refs"]
    boxes["boxes"][at:at] = [_outward(box, place["matrix"]) for box in inside["boxes"]]


_MAX_FRAMES: Final = 10
"""The most frames read at once, over all depths; pages with advertisements have dozens."""

_MAX_DEPTH: Final = 3

_FIRST_CALL: Final = 2.0
"""Seconds that a frame gets to answer, beyond settling time."""

_AFTER_SILENCE: Final = 0.1
"""Seconds for a frame that did not answer last time."""

_REF = re.compile(r"(f\d+)e\d+")
_GONE: Final = "Element [{ref}] is no longer in the page."


@dataclasses.dataclass(eq=False, slots=True)
class _Frame:
    """One document in a frame of another origin."""

    page: Page
    parent: _Frame | None
    """The frame around it, if that is of another origin too; else the page's top document."""
    ref: str
    """The frame element's ref in the parent's document."""
    frame_id: str
    session: CDPSession
    world: EnteredWorld
    prefix: str
    url: str = ""
    silent: bool = False
    """Whether it did not answer when it was last read."""
    found: bool = False
    """Whether the last look found its element."""
    answered: bool = False
    """Whether it answered the last look."""


class ForeignFrames:
    """The frames of another origin in the pages of one lease.

    Args:
        session: The session of the pages.
        top: The world of the page script in top documents.
        seconds: How long settling may take.
        listener: Listens to what is done in the frames.
    """

    def __init__(
        self,
        session: BrowserSession,
        top: World,
        *,
        seconds: float,
        listener: Listener | None = None,
    ) -> None:
        self._session = session
        self._top = top
        self._seconds = seconds + _FIRST_CALL
        self._script = page_script(listening="null" if listener else "")
        self._listener = listener
        self._frames: dict[tuple[Page, str], _Frame] = {}
        self._by_prefix: dict[str, _Frame] = {}
        self._made = 0

    def owns(self, ref: str) -> bool:
        """Return whether a ref belongs to a frame of another origin."""
        return _REF.fullmatch(ref) is not None

    def knows(self, page: Page) -> bool:
        """Return whether a page had frames of another origin at the last look."""
        return any(frame.page is page for frame in self._frames.values())

    def find_entered(self, page: Page) -> Iterator[tuple[CDPSession, EnteredWorld]]:
        """Yield the debugging session and world of each frame that answered the last look."""
        for frame in self._frames.values():
            if frame.page is page and frame.answered:
                yield frame.session, frame.world

    def forget(self, page: Page) -> None:
        """Forget a closed page."""
        for key in [key for key in self._frames if key[0] is page]:
            self._drop(self._frames[key])

    def forget_all(self) -> None:
        """Forget all frames, and number those to come from 1."""
        self._frames.clear()
        self._by_prefix.clear()
        self._made = 0

    async def look_into(self, page: Page, seen: dict[str, Any], options: Mapping[str, Any]) -> None:
        """Add the content of a page's frames to an observation of the top document.

        Args:
            page: The page.
            seen: The result of `observe` for the document. Modified in place.
            options: The options of that call.

        Raises:
            BrowserCrashedError: The page died.
        """
        for frame in self._frames.values():
            if frame.page is page:
                frame.found = frame.answered = False
        await self._look_into(page, seen, options, None, 1, [_MAX_FRAMES])
        # One that was not found may be hidden, or gone with its document.
        left = [each for each in self._frames.values() if each.page is page and not each.found]
        await asyncio.gather(*map(self._drop_if_gone, left))

    async def _look_into(
        self,
        page: Page,
        seen: dict[str, Any],
        options: Mapping[str, Any],
        parent: _Frame | None,
        depth: int,
        budget: list[int],
    ) -> None:
        """Add the content of a document's frames; `budget` holds how many more may be read."""
        found = seen.pop("foreign", [])
        for place in found:
            if known := self._frames.get((page, place["ref"])):
                known.found = True
        if depth > _MAX_DEPTH:
            return
        chosen = found[: budget[0]]
        budget[0] -= len(chosen)
        told = await asyncio.gather(
            *(self._look_at(page, parent, place, options, depth, budget) for place in chosen)
        )
        # From last to first, because each insertion moves the lines after it.
        for place, inside in reversed(list(zip(chosen, told, strict=True))):
            merge_frame(seen, place, inside)

    async def prepare(self, page: Page, options: Mapping[str, Any]) -> Any:
        """Call the page script's `prepare` in the frame of a ref.

        Returns:
            Its answer, with points and boxes in the top window.

        Raises:
            BrowserError: The browser failed.
        """
        ref = options["ref"]
        match = _REF.fullmatch(ref)
        frame = self._by_prefix.get(match[1]) if match else None
        if frame is None or frame.page is not page:
            return {"refused": "gone", "message": _GONE.format(ref=ref), "element": None}
        try:
            answer = await self._call(frame, "prepare", options)
            if answer.get("element"):
                answer["element"]["frame"] = answer["element"]["frame"] or frame.url
            return await self._in_top_window(frame, answer)
        except errors_lib.BrowserError as error:
            self._raise_if_lost(error)
            gone = is_replaced(error)
            kind = "gone" if gone else "no_answer"
            message = _GONE.format(ref=ref) if gone else f"The frame of [{ref}] does not answer."
            return {"refused": kind, "message": message, "element": None}

    async def _look_at(
        self,
        page: Page,
        parent: _Frame | None,
        place: Mapping[str, Any],
        options: Mapping[str, Any],
        depth: int,
        budget: list[int],
    ) -> dict[str, Any]:
        """Return one frame's content, in the coordinates of its own window."""
        known = self._frames.get((page, place["ref"]))
        try:
            async with asyncio.timeout(
                _AFTER_SILENCE if known is not None and known.silent else self._seconds
            ):
                options = {**options, "all_covered": place["covered"]}
                if "private" in place:
                    options["all_private"] = place["private"]
                frame, inside = await self._observe(page, parent, place["ref"], options)
        except TimeoutError:
            if known := self._frames.get((page, place["ref"])):
                known.silent = True
            return dict(_NO_ANSWER)
        except errors_lib.BrowserError as error:
            self._raise_if_lost(error)
            if known := self._frames.get((page, place["ref"])):
                self._drop(known)
            return dict(_NO_ANSWER)
        frame.silent, frame.found, frame.answered = False, True, True
        frame.url = inside["url"]
        await self._look_into(page, inside, options, frame, depth + 1, budget)
        if inside.get("marks", {}).get("refs"):
            await self._keep_marks_in_sight(page, frame, inside["marks"])
        return inside

    async def _observe(
        self, page: Page, parent: _Frame | None, ref: str, options: Mapping[str, Any]
    ) -> tuple[_Frame, dict[str, Any]]:
        """Return a frame and the page script's view of it."""
        for last_try in (False, False, True):
            frame = self._frames.get((page, ref))
            if frame is None:
                frame = await self._enter(page, parent, ref)
            inner = {k: v for k, v in options.items() if k not in ("begin", "first_ref")}
            inner["ref_prefix"] = f"{frame.prefix}e"
            try:
                return frame, await self._call(frame, "observe", inner)
            except errors_lib.BrowserError:
                # It navigated meanwhile, possibly to another process.
                self._drop(frame)
                if last_try:
                    raise
        raise AssertionError("unreachable")

    async def _enter(self, page: Page, parent: _Frame | None, ref: str) -> _Frame:
        """Inject the page script into a frame's current document."""
        outer, world = await self._world_of(page, parent)
        frame_id = await self._frame_id(outer, world, ref)
        script = self._script
        try:
            session = outer
            entered = await enter_world(self._sender(session), script, frame_id)
        except errors_lib.BrowserError as error:
            self._raise_if_lost(error)
            # A frame of another process has a debugging session of its own.
            session = await self._session_of(page, frame_id)
            if self._listener is not None:
                await self._listener.hear_frame(page, session)
            entered = await enter_world(self._sender(session), script, frame_id)
        self._made += 1
        frame = _Frame(page, parent, ref, frame_id, session, entered, f"f{self._made}")
        self._frames[page, ref] = frame
        self._by_prefix[frame.prefix] = frame
        return frame

    async def _world_of(
        self, page: Page, frame: _Frame | None
    ) -> tuple[CDPSession, EnteredWorld | None]:
        if frame is not None:
            return frame.session, frame.world
        return await self._session.debugger(page), self._top.find_entered(page)

    async def _frame_id(self, session: CDPSession, world: EnteredWorld | None, ref: str) -> str:
        """Return the browser's id of the frame that a frame element shows."""
        send = self._sender(session)
        element = f"elementOf({json.dumps(ref)})"
        group = {"objectGroup": "webtraj"}
        try:
            if world is None:
                expression = f"{SCRIPT_PROPERTY}.{element}"
                answer = await send("Runtime.evaluate", {"expression": expression, **group})
            else:
                function = f"function() {{ return this.{element} }}"
                answer = await send(
                    "Runtime.callFunctionOn",
                    {"functionDeclaration": function, "objectId": world.script, **group},
                )
            object_id = answer["result"].get("objectId", "")
            told = await send("DOM.describeNode", {"objectId": object_id})
            return str(told["node"].get("frameId", ""))
        finally:
            await send("Runtime.releaseObjectGroup", {"objectGroup": "webtraj"})

    async def _session_of(self, page: Page, frame_id: str) -> CDPSession:
        """Return the debugging session of a frame that has a process of its own."""
        for frame in page.frames[1:]:
            try:
                session = await self._session.run(
                    page.context.new_cdp_session(frame), what="open a debugging session"
                )
            except errors_lib.BrowserError as error:
                self._raise_if_lost(error)
                continue  # In its parent's process, or gone.
            tree = await self._sender(session)("Page.getFrameTree", {})
            if tree["frameTree"]["frame"]["id"] == frame_id:
                return session
            await self._session.run(session.detach(), what="close a debugging session")
        raise errors_lib.BrowserError(f"The page at {page.url} has no frame {frame_id!r} now.")

    def _sender(self, debugger: CDPSession) -> Send:
        return sender(self._session, debugger, seconds=self._seconds)

    async def _call(self, frame: _Frame, function: str, argument: Any) -> Any:
        return await frame.world.call(self._sender(frame.session), function, argument)

    async def _call_around(self, frame: _Frame, function: str, argument: Any) -> Any:
        """Call the page script of the document around a frame."""
        if frame.parent is not None:
            return await self._call(frame.parent, function, argument)
        return await self._top.call(frame.page, function, argument)

    async def _in_top_window(self, frame: _Frame, answer: dict[str, Any]) -> Any:
        """Convert an answer's point and box to the top window, if the point is not covered."""
        inner: _Frame | None = frame
        while inner is not None:
            asked = {"ref": inner.ref, "points": answer.get("points")}
            outside = await self._call_around(inner, "throughFrame", asked)
            if "refused" in outside:
                return {**outside, "element": answer.get("element")}
            if "points" in answer:
                answer["points"] = outside["points"]
                answer["point"] = answer["points"][0]
            if answer.get("element"):
                answer["element"]["box"] = _outward(answer["element"]["box"], outside["matrix"])
            inner = inner.parent
        return answer

    async def _keep_marks_in_sight(
        self, page: Page, frame: _Frame, marks: dict[str, list[Any]]
    ) -> None:
        """Drop marks whose middle is covered or out of sight in the surrounding document."""
        points = [(x + width / 2, y + height / 2) for x, y, width, height in marks["boxes"]]
        asked = {"ref": frame.ref, "points": points}
        in_sight = await self._call_around(frame, "seenThroughFrame", asked)
        for column, values in marks.items():
            marks[column] = [v for v, keep in zip(values, in_sight, strict=True) if keep]

    async def _drop_if_gone(self, frame: _Frame) -> None:
        """Drop a frame whose document is gone."""
        try:
            async with asyncio.timeout(_AFTER_SILENCE):
                await self._call(frame, "seenThroughFrame", {"ref": "", "points": []})
            frame.answered = True
        except TimeoutError:
            pass  # Busy, so not gone.
        except errors_lib.BrowserError as error:
            self._raise_if_lost(error)
            self._drop(frame)

    def _drop(self, frame: _Frame) -> None:
        self._frames.pop((frame.page, frame.ref), None)
        self._by_prefix.pop(frame.prefix, None)

    def _raise_if_lost(self, error: errors_lib.BrowserError) -> None:
        """Raise an error that affects more than a frame."""
        if isinstance(error, errors_lib.BrowserCrashedError) and not self._session.lease.healthy:
            raise error
