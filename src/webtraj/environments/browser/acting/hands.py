"""What all verbs are done with: trusted input, and the page script's help to aim it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from webtraj import errors as errors_lib
from webtraj.environments import actions as a
from webtraj.environments.browser import policies as policies_lib
from webtraj.environments.browser import session as session_lib

__all__ = ["ActionRefused", "Hands", "performs"]

_A = TypeVar("_A", bound=a.Action)
_Performer = Callable[["Hands", Any], Awaitable[None]]

_PERFORMERS: dict[type[a.Action], _Performer] = {}

_TRIES = 11
_PAUSE = 0.05
"""How often, and at which distance in seconds, an element without area is looked for again."""

_DRAG_STEPS = 5
"""Mouse moves between two points of a drag; pages start a drag only after a few of them."""


class ActionRefused(errors_lib.WebtrajError):
    """An action that cannot be done on the page as it is. The environment shows it to the agent."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        """The reason in one word, for counting."""


class Hands:
    """Does actions in a session.

    Args:
        session: Where.
        policy: Which pages may be opened and which files given away.
    """

    def __init__(
        self, session: session_lib.BrowserSession, policy: policies_lib.AccessPolicy
    ) -> None:
        self.session = session
        self.policy = policy
        self._held_keys: set[str] = set()
        self._held_buttons: set[Any] = set()
        self._mouse_moved = False
        self.touched: dict[str, Any] | None = None
        """The page script's description of the element that the last action was about."""

    async def perform(self, action: a.Action) -> None:
        """Does an action.

        Raises:
            ActionRefused: It cannot be done; the page is as it was.
            BrowserError: The browser failed.
        """
        self.touched = None
        performer = _PERFORMERS.get(type(action))
        if performer is None:
            raise ActionRefused("unsupported", f"This environment does not do {action!r}.")
        try:
            await performer(self, action)
        except errors_lib.BrowserCrashedError:
            if not await self.session.tab_was_closed():
                raise

    async def rest(self) -> None:
        """Releases all that is held and puts the mouse where it was at first."""
        page = self.session.page
        for key in self._held_keys:
            await self.run(page.keyboard.up(key), "release a key")
        for button in self._held_buttons:
            await self.run(page.mouse.up(button=button), "release a mouse button")
        if self._mouse_moved:
            await self.run(page.mouse.move(0, 0), "move the mouse")
        self._held_keys.clear()
        self._held_buttons.clear()
        self._mouse_moved = False

    async def prepare(self, kind: str, ref: str | None, **details: Any) -> Any:
        """Asks the page script to make an element ready; returns what it answers."""
        for tries_left in reversed(range(_TRIES)):
            answer = await self.session.prepare(kind, ref, details)
            if answer.get("refused") != "outside" or not tries_left:
                break
            await asyncio.sleep(_PAUSE)  # An icon has no area until its picture is there.
        self.touched = answer.get("element")
        if "refused" in answer:
            raise ActionRefused(answer["refused"], answer["message"])
        return answer

    async def run(self, call: Awaitable[Any], what: str) -> Any:
        """Awaits a call into the browser."""
        return await self.session.run(call, what=what)

    @contextlib.asynccontextmanager
    async def holding(self, modifiers: Sequence[str]) -> AsyncIterator[None]:
        """Holds modifier keys."""
        for key in modifiers:
            await self.key_down(key)
        try:
            yield
        finally:
            for key in reversed(modifiers):
                await self.key_up(key)

    async def key_down(self, key: str) -> None:
        """Presses a key and keeps it down."""
        self._held_keys.add(key)
        await self.run(self.session.page.keyboard.down(key), "press a key")

    async def key_up(self, key: str) -> None:
        """Releases a key."""
        await self.run(self.session.page.keyboard.up(key), "release a key")
        self._held_keys.discard(key)

    async def move(self, x: float, y: float, *, steps: int = 1) -> None:
        """Moves the mouse."""
        self._mouse_moved = True
        await self.run(self.session.page.mouse.move(x, y, steps=steps), "move the mouse")

    async def button_down(self, button: Any = "left") -> None:
        """Presses a mouse button and keeps it down."""
        self._held_buttons.add(button)
        await self.run(self.session.page.mouse.down(button=button), "press a mouse button")

    async def button_up(self, button: Any = "left") -> None:
        """Releases a mouse button."""
        await self.run(self.session.page.mouse.up(button=button), "release a mouse button")
        self._held_buttons.discard(button)

    async def click(self, point: Sequence[float], *, button: Any = "left", count: int = 1) -> None:
        """Clicks at a point."""
        self._mouse_moved = True
        mouse = self.session.page.mouse
        await self.run(mouse.click(point[0], point[1], button=button, click_count=count), "click")

    async def drag(self, path: Sequence[Sequence[float]]) -> None:
        """Drags with the left button along a path."""
        await self.move(*path[0])
        await self.button_down()
        try:
            for x, y in path[1:]:
                await self.move(x, y, steps=_DRAG_STEPS)
        finally:
            await self.button_up()

    async def press(self, keys: str) -> None:
        """Presses chords, one after another."""
        for chord in keys.split(" "):
            await self.run(self.session.page.keyboard.press(chord), f"press {chord}")

    async def type(self, text: str) -> None:
        """Types text key by key into what has the focus."""
        await self.run(self.session.page.keyboard.type(text), "type")

    async def replace_text(self, ref: str, value: str) -> None:
        """Sets the value of a text field."""
        ready = await self.prepare("fill", ref, value=value)
        keyboard = self.session.page.keyboard
        if ready.get("filled"):
            return
        if value:
            await self.run(keyboard.insert_text(value), "insert text")
        elif ready["replace"]:
            await self.run(keyboard.press("Delete"), "press Delete")

    async def choose_files(self, paths: Sequence[str], point: Sequence[float]) -> None:
        """Gives files to the chooser that a click at a point opens."""
        files = self._allowed_files(paths)
        async with self._expecting_chooser() as chooser:
            await self.click(point)
        await self.run((await chooser.value).set_files(files), "take files")

    def _allowed_files(self, paths: Sequence[str]) -> list[str]:
        files = []
        for path in paths:
            allowed = self.policy.upload(path)
            if allowed is None:
                raise ActionRefused("blocked", f"The file {path!r} may not be uploaded.")
            files.append(str(allowed))
        return files

    @contextlib.asynccontextmanager
    async def _expecting_chooser(self) -> AsyncIterator[Any]:
        from playwright.async_api import TimeoutError as PlaywrightTimeoutError

        try:
            async with self.session.page.expect_file_chooser(timeout=2000) as chooser:
                yield chooser
        except PlaywrightTimeoutError:
            raise ActionRefused("not_a_chooser", "No file chooser opened there.") from None

    async def navigate(self, call: Awaitable[Any]) -> Any:
        """Awaits a navigation; one that fails is the action's failure, not the browser's."""
        try:
            return await call
        except errors_lib.BrowserCrashedError:
            raise
        except errors_lib.BrowserError as error:
            raise ActionRefused("navigation_failed", str(error)) from error

    def check_url(self, url: str) -> None:
        """Refuses a URL that the policy does not allow."""
        if not self.policy.open(url):
            raise ActionRefused("blocked", f"This environment does not allow opening {url}.")

    def check_travel(self) -> None:
        """Refuses to leave the page where the policy keeps the agent on it."""
        if not self.policy.travel():
            raise ActionRefused("blocked", "This environment does not allow leaving the page.")

    async def look_at(self, x: float, y: float) -> tuple[float, float]:
        """Notes the element at a point; refuses a point outside the viewport."""
        answer = await self.session.call("elementAt", [x, y])
        if answer is None:
            raise ActionRefused("outside", f"The point ({x:g}, {y:g}) is outside the viewport.")
        self.touched = answer
        return x, y


def performs(
    *verbs: type[_A],
) -> Callable[[Callable[[Hands, _A], Awaitable[None]]], Callable[[Hands, _A], Awaitable[None]]]:
    """Registers the coroutine function that does these verbs."""

    def register(function: Callable[[Hands, _A], Awaitable[None]]) -> Any:
        for verb in verbs:
            _PERFORMERS[verb] = function
        return function

    return register
