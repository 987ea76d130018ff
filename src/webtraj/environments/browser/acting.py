"""Performing actions: from a verb to trusted input.

An element's verb first asks the page script for a point on it (`page/locate.js`, `page/act.js`),
which resolves the ref, scrolls, and checks that nothing covers the element, in one call. An action
that cannot be done is refused at once, with a reason, and leaves the page unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from dm_env import specs

from webtraj import errors as errors_lib
from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as a
from webtraj.environments.actions import keys as keys_lib
from webtraj.environments.browser import access as access_lib
from webtraj.environments.browser import lease as lease_lib
from webtraj.environments.browser import session as session_lib

__all__ = ["PERFORMERS", "ActionExecutor", "ActionRefused", "ActionSpec", "to_action"]

_NO_ACTION = (
    "A browser environment takes an Action, a Decision that holds one, or a string such as "
    "\"click('12')\"; got {given!r}."
)


class ActionSpec(specs.Array):  # type: ignore[misc]  # dm_env is untyped.
    """Any `Action`, or a string in BrowserGym's dialect."""

    def __init__(self) -> None:
        super().__init__(shape=(), dtype=object, name="action")

    def validate(self, value: Any) -> Any:
        """Return the action that `value` stands for.

        Raises:
            ValueError: It is not an action.
        """
        return to_action(value)

    def generate_value(self) -> a.Action:
        """Return an action that is always allowed and changes nothing."""
        return a.Wait(0)

    def __reduce__(self) -> tuple[Any, ...]:
        return ActionSpec, ()


def to_action(value: Any) -> a.Action:
    """Return the action that was passed to `step`, whatever its form.

    Raises:
        InvalidInputError: `value` is not an action.
    """
    if isinstance(value, trajectory_lib.Decision):
        value = value.action
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, str):
        return a.parse_action(value)
    if isinstance(value, a.Action):
        return value
    raise errors_lib.InvalidInputError(_NO_ACTION.format(given=value))


_A = TypeVar("_A", bound=a.Action)
_Performer = Callable[["ActionExecutor", Any], Awaitable[None]]

PERFORMERS: dict[type[a.Action], tuple[_Performer, lease_lib.Operation | None]] = {}
"""What performs each verb, and what work that is."""

_TRIES = 11
_PAUSE = 0.05
"""Retries, and seconds between them, for an element without area."""

_DRAG_STEPS = 5
"""Mouse moves between two points of a drag; pages start a drag only after a few of them."""


class ActionRefused(errors_lib.WebtrajError):
    """An action that cannot be done on the current page. The agent is told why."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        """The reason in one word, for counting."""


class ActionExecutor:
    """An executor of actions in a session.

    Args:
        session: The session.
        policy: Which pages may be opened and which files uploaded.
    """

    def __init__(
        self, session: session_lib.BrowserSession, policy: access_lib.AccessPolicy
    ) -> None:
        self.session = session
        self.run = session.run
        self.policy = policy
        self._held_keys: set[str] = set()
        self._held_buttons: set[Any] = set()
        self._mouse_moved = False
        self.touched: dict[str, Any] | None = None
        """The page script's description of the last action's element."""

    async def perform(self, action: a.Action) -> None:
        """Do an action.

        Raises:
            ActionRefused: It cannot be done; the page is unchanged.
            BrowserError: The browser failed.
        """
        self.touched = None
        if type(action) not in PERFORMERS:
            raise ActionRefused("unsupported", f"This environment does not do {action!r}.")
        performer, work = PERFORMERS[type(action)]
        try:
            async with self.session.lease.turns.at(work):
                await performer(self, action)
        except errors_lib.BrowserCrashedError:
            if not await self.session.tab_was_closed():
                raise

    async def rest(self) -> None:
        """Release all keys and buttons and move the mouse back to its start."""
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
        """Ask the page script to prepare an element; return its answer."""
        for tries_left in reversed(range(_TRIES)):
            answer = await self.session.prepare(kind, ref, details)
            if answer.get("refused") != "outside" or not tries_left:
                break
            await asyncio.sleep(_PAUSE)  # An icon has no area until its image has loaded.
        self.touched = answer.get("element")
        if "refused" in answer:
            raise ActionRefused(answer["refused"], answer["message"])
        return answer

    @contextlib.asynccontextmanager
    async def holding(self, modifiers: Sequence[str]) -> AsyncIterator[None]:
        """Hold modifier keys."""
        for key in modifiers:
            await self.key_down(key)
        try:
            yield
        finally:
            for key in reversed(modifiers):
                await self.key_up(key)

    async def key_down(self, key: str) -> None:
        """Press a key and keeps it down."""
        self._held_keys.add(key)
        await self.run(self.session.page.keyboard.down(key), "press a key")

    async def key_up(self, key: str) -> None:
        """Release a key."""
        await self.run(self.session.page.keyboard.up(key), "release a key")
        self._held_keys.discard(key)

    async def move(self, x: float, y: float, *, steps: int = 1) -> None:
        """Move the mouse."""
        self._mouse_moved = True
        await self.run(self.session.page.mouse.move(x, y, steps=steps), "move the mouse")

    async def button_down(self, button: Any = "left") -> None:
        """Press a mouse button and keeps it down."""
        self._held_buttons.add(button)
        await self.run(self.session.page.mouse.down(button=button), "press a mouse button")

    async def button_up(self, button: Any = "left") -> None:
        """Release a mouse button."""
        await self.run(self.session.page.mouse.up(button=button), "release a mouse button")
        self._held_buttons.discard(button)

    async def click(self, point: Sequence[float], *, button: Any = "left", count: int = 1) -> None:
        """Click at a point."""
        self._mouse_moved = True
        mouse = self.session.page.mouse
        await self.run(mouse.click(point[0], point[1], button=button, click_count=count), "click")

    async def drag(self, path: Sequence[Sequence[float]]) -> None:
        """Drag with the left button along a path."""
        await self.move(*path[0])
        await self.button_down()
        try:
            for x, y in path[1:]:
                await self.move(x, y, steps=_DRAG_STEPS)
        finally:
            await self.button_up()

    async def press(self, keys: str) -> None:
        """Press chords, one after another."""
        for chord in keys.split(" "):
            await self.run(self.session.page.keyboard.press(chord), f"press {chord}")

    async def type(self, text: str) -> None:
        """Type text key by key into what has the focus."""
        await self.run(self.session.page.keyboard.type(text), "type")

    async def replace_text(self, ref: str, value: str) -> None:
        """Set the value of a text field."""
        ready = await self.prepare("fill", ref, value=value)
        keyboard = self.session.page.keyboard
        if ready.get("filled"):
            return
        if value:
            await self.run(keyboard.insert_text(value), "insert text")
        elif ready["replace"]:
            await self.run(keyboard.press("Delete"), "press Delete")

    async def choose_files(self, paths: Sequence[str], point: Sequence[float]) -> None:
        """Choose files in the file chooser that a click at a point opens."""
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
        """Await a navigation; a failure is the action's, not the browser's."""
        try:
            return await call
        except errors_lib.BrowserCrashedError:
            raise
        except errors_lib.BrowserError as error:
            raise ActionRefused("navigation_failed", str(error)) from error

    def check_url(self, url: str) -> None:
        """Refuse a URL that the policy does not allow."""
        if not self.policy.open(url):
            raise ActionRefused("blocked", f"This environment does not allow opening {url}.")

    def check_travel(self) -> None:
        """Refuse to leave the page if the policy forbids it."""
        if not self.policy.travel():
            raise ActionRefused("blocked", "This environment does not allow leaving the page.")

    async def look_at(self, x: float, y: float) -> tuple[float, float]:
        """Note the element at a point; refuses a point outside the viewport."""
        answer = await self.session.call("elementAt", [x, y])
        if answer is None:
            raise ActionRefused("outside", f"The point ({x:g}, {y:g}) is outside the viewport.")
        self.touched = answer
        return x, y


def _performs(
    *verbs: type[_A], work: lease_lib.Operation | None = "execute"
) -> Callable[
    [Callable[[ActionExecutor, _A], Awaitable[None]]],
    Callable[[ActionExecutor, _A], Awaitable[None]],
]:
    """Register the coroutine function that performs these verbs.

    Args:
        verbs: The verbs.
        work: What it counts as where a pool limits its operations; None if it does no work or takes
            its own turns, as a session does when it opens a URL.
    """

    def register(function: Callable[[ActionExecutor, _A], Awaitable[None]]) -> Any:
        for verb in verbs:
            PERFORMERS[verb] = function, work
        return function

    return register


# On an element.


@_performs(a.Click)
async def _click(executor: ActionExecutor, action: a.Click) -> None:
    ready = await executor.prepare("point", action.ref)
    async with executor.holding(action.modifiers):
        await executor.click(ready["point"], button=action.button, count=action.count)


@_performs(a.Hover)
async def _hover(executor: ActionExecutor, action: a.Hover) -> None:
    ready = await executor.prepare("hover", action.ref)
    await executor.move(*ready["point"])


@_performs(a.Fill)
async def _fill(executor: ActionExecutor, action: a.Fill) -> None:
    await executor.replace_text(action.ref, action.value)


@_performs(a.Clear)
async def _clear(executor: ActionExecutor, action: a.Clear) -> None:
    await executor.replace_text(action.ref, "")


@_performs(a.TypeInto)
async def _type_into(executor: ActionExecutor, action: a.TypeInto) -> None:
    if action.clear:
        await executor.replace_text(action.ref, "")
    else:
        await executor.prepare("focus", action.ref)
    await executor.type(action.text)
    if action.submit:
        await executor.press("Enter")


@_performs(a.SelectOption)
async def _select_option(executor: ActionExecutor, action: a.SelectOption) -> None:
    await executor.prepare("select", action.ref, options=action.options)


@_performs(a.Check)
async def _check(executor: ActionExecutor, action: a.Check) -> None:
    await _toggle(executor, action.ref, on=True)


@_performs(a.Uncheck)
async def _uncheck(executor: ActionExecutor, action: a.Uncheck) -> None:
    await _toggle(executor, action.ref, on=False)


async def _toggle(executor: ActionExecutor, ref: str, *, on: bool) -> None:
    ready = await executor.prepare("toggle", ref, on=on)
    if "point" in ready:
        await executor.click(ready["point"])


@_performs(a.Focus)
async def _focus(executor: ActionExecutor, action: a.Focus) -> None:
    await executor.prepare("focus", action.ref)


@_performs(a.Press)
async def _press(executor: ActionExecutor, action: a.Press) -> None:
    await executor.prepare("focus", action.ref)
    await executor.press(action.keys)


@_performs(a.DragTo)
async def _drag_to(executor: ActionExecutor, action: a.DragTo) -> None:
    # Scrolling the target into view may move the source, so locate the source last.
    target = await executor.prepare("hover", action.target_ref)
    source = await executor.prepare("point", action.ref)
    await executor.drag([source["point"], target["point"]])


@_performs(a.UploadFile)
async def _upload_file(executor: ActionExecutor, action: a.UploadFile) -> None:
    ready = await executor.prepare("file", action.ref)
    await executor.choose_files(action.paths, ready.get("point") or _middle(executor.touched))


def _middle(element: dict[str, Any] | None) -> list[float]:
    x, y, width, height = element["box"] if element else (0.0, 0.0, 0.0, 0.0)
    return [x + width / 2, y + height / 2]


# At a point.


@_performs(a.ClickAt)
async def _click_at(executor: ActionExecutor, action: a.ClickAt) -> None:
    point = await executor.look_at(action.x, action.y)
    async with executor.holding(action.modifiers):
        await executor.click(point, button=action.button, count=action.count)


@_performs(a.TypeAt)
async def _type_at(executor: ActionExecutor, action: a.TypeAt) -> None:
    await executor.click(await executor.look_at(action.x, action.y))
    if action.clear:
        await executor.press("ControlOrMeta+a Delete")
    await executor.type(action.text)
    if action.submit:
        await executor.press("Enter")


@_performs(a.MoveMouse)
async def _move_mouse(executor: ActionExecutor, action: a.MoveMouse) -> None:
    await executor.move(*await executor.look_at(action.x, action.y))


@_performs(a.MouseDown)
async def _mouse_down(executor: ActionExecutor, action: a.MouseDown) -> None:
    await _move_if_told(executor, action.x, action.y)
    await executor.button_down(action.button)


@_performs(a.MouseUp)
async def _mouse_up(executor: ActionExecutor, action: a.MouseUp) -> None:
    await _move_if_told(executor, action.x, action.y)
    await executor.button_up(action.button)


@_performs(a.DragAt)
async def _drag_at(executor: ActionExecutor, action: a.DragAt) -> None:
    for x, y in action.path[1:]:
        await executor.look_at(x, y)
    await executor.look_at(*action.path[0])
    await executor.drag(action.path)


@_performs(a.ScrollAt)
async def _scroll_at(executor: ActionExecutor, action: a.ScrollAt) -> None:
    mouse = executor.session.page.mouse
    await executor.move(*await executor.look_at(action.x, action.y))
    await executor.run(mouse.wheel(action.dx, action.dy), "turn the mouse wheel")


@_performs(a.UploadFileAt)
async def _upload_file_at(executor: ActionExecutor, action: a.UploadFileAt) -> None:
    point = await executor.look_at(action.x, action.y)
    await executor.choose_files(action.paths, point)


async def _move_if_told(executor: ActionExecutor, x: float | None, y: float | None) -> None:
    if x is not None and y is not None:
        point = await executor.look_at(x, y)
        await executor.move(*point)


@_performs(a.Scroll)
async def _scroll(executor: ActionExecutor, action: a.Scroll) -> None:
    await executor.prepare("scroll", action.ref, dx=action.dx, dy=action.dy)


# With the keyboard.


@_performs(a.TypeText)
async def _type_text(executor: ActionExecutor, action: a.TypeText) -> None:
    await executor.type(action.text)


@_performs(a.InsertText)
async def _insert_text(executor: ActionExecutor, action: a.InsertText) -> None:
    await executor.run(executor.session.page.keyboard.insert_text(action.text), "insert text")


@_performs(a.PressKey)
async def _press_key(executor: ActionExecutor, action: a.PressKey) -> None:
    await executor.press(action.keys)


@_performs(a.KeyDown)
async def _key_down(executor: ActionExecutor, action: a.KeyDown) -> None:
    await executor.key_down(action.key)


@_performs(a.KeyUp)
async def _key_up(executor: ActionExecutor, action: a.KeyUp) -> None:
    await executor.key_up(action.key)


@_performs(a.HoldKey)
async def _hold_key(executor: ActionExecutor, action: a.HoldKey) -> None:
    async with executor.holding(keys_lib.split_chord(action.keys)):
        await asyncio.sleep(action.seconds)


# Pages, history and tabs.


@_performs(a.Goto, work=None)
async def _goto(executor: ActionExecutor, action: a.Goto) -> None:
    executor.check_url(action.url)
    await executor.navigate(executor.session.open(action.url))


@_performs(a.GoBack, work="navigate")
async def _go_back(executor: ActionExecutor, action: a.GoBack) -> None:
    executor.check_travel()
    await _check_history(executor, -1)
    going = executor.session.page.go_back(wait_until="commit")
    await executor.navigate(executor.run(going, "go back"))


@_performs(a.GoForward, work="navigate")
async def _go_forward(executor: ActionExecutor, action: a.GoForward) -> None:
    executor.check_travel()
    await _check_history(executor, +1)
    going = executor.session.page.go_forward(wait_until="commit")
    await executor.navigate(executor.run(going, "go forward"))


async def _check_history(executor: ActionExecutor, steps: int) -> None:
    place, length = await executor.session.history()
    if not 0 <= place + steps < length:
        direction = "back" if steps < 0 else "forward"
        raise ActionRefused("no_history", f"There is no page to go {direction} to.")


@_performs(a.Reload, work="navigate")
async def _reload(executor: ActionExecutor, action: a.Reload) -> None:
    executor.check_travel()
    loading = executor.session.page.reload(wait_until="commit")
    await executor.navigate(executor.run(loading, "load the page again"))


@_performs(a.NewTab, work=None)
async def _new_tab(executor: ActionExecutor, action: a.NewTab) -> None:
    executor.check_travel()
    if action.url:
        executor.check_url(action.url)
    page = await executor.run(executor.session.lease.context.new_page(), "open a tab")
    await executor.session.focus(page)
    if action.url:
        await executor.navigate(executor.session.open(action.url))


@_performs(a.CloseTab)
async def _close_tab(executor: ActionExecutor, action: a.CloseTab) -> None:
    executor.check_travel()
    if len(executor.session.tabs) == 1:
        raise ActionRefused("last_tab", "The last tab cannot be closed.")
    await executor.run(executor.session.page.close(), "close a tab")


@_performs(a.FocusTab)
async def _focus_tab(executor: ActionExecutor, action: a.FocusTab) -> None:
    tabs = executor.session.tabs
    if action.index >= len(tabs):
        raise ActionRefused(
            "no_such_tab", f"There is no tab {action.index}: there are {len(tabs)}."
        )
    await executor.session.focus(tabs[action.index])


# Verbs that leave the page unchanged.


@_performs(a.Wait, work=None)
async def _wait(executor: ActionExecutor, action: a.Wait) -> None:
    await asyncio.sleep(action.seconds)


@_performs(a.Screenshot, a.CursorPosition, a.SendMessage, a.Answer, a.ReportInfeasible, work=None)
async def _nothing(executor: ActionExecutor, action: a.Action) -> None:
    pass


@_performs(a.InvalidAction, work=None)
async def _invalid(executor: ActionExecutor, action: a.InvalidAction) -> None:
    raise ActionRefused(f"invalid_{action.kind}", action.reason or "That was no action.")
