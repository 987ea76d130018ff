"""Pictures of a session, for observations: screenshots and sets of marks, from one capture."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from webtraj.environments.browser import observation as observation_lib
from webtraj.environments.browser import pictures as pictures_lib
from webtraj.environments.browser import secrecy as secrecy_lib
from webtraj.environments.browser import session as session_lib
from webtraj.environments.browser import set_of_marks as set_of_marks_lib

__all__ = ["Camera"]

_Box = tuple[float, float, float, float]


class Camera:
    """Takes the pictures that are asked for.

    Args:
        observe: What to observe.
        keeper: Is told where pictures show secrets.
    """

    def __init__(self, observe: observation_lib.Observe, keeper: secrecy_lib.SecretKeeper) -> None:
        self._observe = observe
        self._keeper = keeper

    def is_due(self, step: int) -> bool:
        """Whether a step, counted from 0, is to have a picture."""
        wanted = {"screenshot", "set_of_marks"}.intersection(self._observe.channels)
        return bool(wanted) and step % self._observe.screenshot_stride == 0

    def may_shoot_early(self, step: int) -> bool:
        """Whether the capture may begin before it is known what the page shows."""
        # Where there are secrets to cover, the page is asked for them before and after.
        return self.is_due(step) and not self._keeper.covers

    async def pictures(
        self, session: session_lib.BrowserSession, seen: Mapping[str, Any], *, step: int
    ) -> dict[str, Any]:
        """Returns the channels `screenshot` and `set_of_marks`, empty on steps without pictures.

        Args:
            session: Where to look.
            seen: What `BrowserSession.look` gave; an early capture among it is used.
            step: The step's number in its episode, from 0.

        Raises:
            BrowserError: The browser failed.
            MissingDependencyError: Pillow is needed and not installed.
        """
        if not self.is_due(step):
            return {"screenshot": b"", "set_of_marks": _marks(b"", None)}
        channels = self._observe.channels
        if self._keeper.covers:
            capture, secrets = await self._capture_with_secrets(session)
        else:
            capture, secrets = seen.get("capture") or await session.screenshot(), []
        viewport = await session.viewport()
        taken: dict[str, Any] = {}
        if "screenshot" in channels:
            taken["screenshot"] = await self._reworked(capture)
            self._keeper.cover(taken["screenshot"], secrets, viewport)
        if "set_of_marks" in channels:
            marks = seen["marks"]
            draw = functools.partial(
                set_of_marks_lib.draw_marks,
                boxes=marks["boxes"],
                viewport=viewport,
                seed=self._observe.marks_seed,
            )
            image = await self._reworked(capture, draw if marks["boxes"] else None)
            self._keeper.cover(image, secrets, viewport)
            taken["set_of_marks"] = _marks(image, marks)
        return taken

    async def _capture_with_secrets(
        self, session: session_lib.BrowserSession
    ) -> tuple[bytes, list[_Box] | None]:
        """Returns a screenshot and where it shows secrets; None if that cannot be told."""
        # The page may move meanwhile: what it showed before counts, and after.
        before = await session.snapshot(self._keeper.selector)
        capture = await session.screenshot()
        after = await session.snapshot(self._keeper.selector)
        return capture, self._keeper.boxes(before, after)

    async def _reworked(self, capture: bytes, draw: Any = None) -> bytes:
        if draw is None and self._observe.screenshot_scale == 1:
            return capture
        # Pillow takes tens of ms, in which other environments go on.
        return await asyncio.to_thread(
            pictures_lib.rework,
            capture,
            picture_format=self._observe.screenshot_format,
            quality=self._observe.screenshot_quality,
            scale=self._observe.screenshot_scale,
            draw=draw,
        )


def _marks(image: bytes, marks: Mapping[str, Any] | None) -> observation_lib.SetOfMarks:
    marks = marks or {"refs": [], "roles": [], "names": [], "boxes": []}
    return observation_lib.SetOfMarks(
        image=image,
        refs=observation_lib.strings(marks["refs"]),
        roles=observation_lib.strings(marks["roles"]),
        names=observation_lib.strings(marks["names"]),
        boxes=np.array(marks["boxes"], dtype=np.float64).reshape(-1, 4),
    )
