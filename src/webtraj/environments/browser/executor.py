"""Performing actions: from a verb to trusted input.

An element's verb first asks the page script for a point on it (`page/locate.js`, `page/act.js`),
which resolves the ref, scrolls, and checks that nothing covers the element, in one call. An action
that cannot be done is refused at once, with a reason, and leaves the page unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from webtraj import errors as errors_lib
from webtraj.environments import actions as a
from webtraj.environments.actions import keys as keys_lib
from webtraj.environments.browser import access as access_lib
from webtraj.environments.browser import clipboard as clipboard_lib
from webtraj.environments.browser import lease as lease_lib
from webtraj.environments.browser import session as session_lib

__all__ = ["PERFORMERS", "ActionExecutor", "ActionRefused"]

_TRIES = 11
_PAUSE = 0.05
"""Retries, and seconds between them, for an element that has no area or that no click reaches."""

_DRAG_STEPS = 5
"""Mouse moves between two points of a drag; pages start a drag only after a few of them."""

_DROP_PAUSE = 0.1
"""Seconds before a drag's last move is repeated: pages that sort while something is dragged over
them skip moves that follow each other faster than a hand's."""


_TYPING = (
    a.Fill, a.Clear, a.TypeInto, a.TypeAt, a.TypeText, a.InsertText, a.Press, a.PressKey, a.KeyDown,
    a.KeyUp, a.HoldKey,
)  # fmt: skip
"""Actions after which a page may wait for the typing to pause."""


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
        self.session.begin_action(types=isinstance(action, _TYPING))
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
            await self.place_mouse()
        self._held_keys.clear()
        self._held_buttons.clear()

    async def place_mouse(self) -> None:
        """Move the mouse to its start, so that a new document learns its position."""
        await self.run(self.session.page.mouse.move(0, 0), "move the mouse")
        self._mouse_moved = False

    async def prepare(self, kind: str, ref: str | None, **details: Any) -> Any:
        """Ask the page script to prepare an element; return its answer."""
        for tries_left in reversed(range(_TRIES)):
            answer = await self.session.prepare(kind, ref, details)
            if answer.get("refused") not in ("outside", "covered") or not tries_left:
                break
            # An icon has no area until its image has loaded; a scrolling list takes no clicks.
            await asyncio.sleep(_PAUSE)
        self.touched = answer.get("element")
        if "refused" in answer:
            raise ActionRefused(answer["refused"], answer["message"])
        return answer

    async def was_toggled(self, ref: str, *, on: bool) -> bool:
        """Return whether a clicked box shows the wanted state within a short time, or is gone."""
        for _ in range(4 * _TRIES):  # A second: some pages ask their server first.
            try:
                answer = await self.session.prepare("toggled", ref, {"on": on})
            except errors_lib.BrowserCrashedError:
                raise
            except errors_lib.BrowserError:
                return True  # The click led to another page.
            if answer.get("toggled", True):
                return True
            await asyncio.sleep(_PAUSE / 2)
        return False

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
        """Press a key and keep it down."""
        self._held_keys.add(key)
        async with self._clipboard_for(key):
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
        """Press a mouse button and keep it down."""
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
            await asyncio.sleep(_DROP_PAUSE)
            await self.move(*path[-1])
        finally:
            await self.button_up()

    async def press(self, keys: str) -> None:
        """Press chords, one after another."""
        for chord in keys.split(" "):
            async with self._clipboard_for(*keys_lib.split_chord(chord)):
                await self.run(self.session.page.keyboard.press(chord), f"press {chord}")

    async def type(self, text: str) -> None:
        """Type text key by key into what has the focus."""
        async with self._clipboard_for(*set(text)):
            await self.run(self.session.page.keyboard.type(text), "type")

    def _clipboard_for(self, *keys: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Return a context that holds the clipboard if these keys may paste."""
        if clipboard_lib.may_paste((*self._held_keys, *keys)):
            return self.session.own_clipboard()
        return contextlib.nullcontext()

    async def insert(self, text: str) -> None:
        """Insert text at once into what has the focus."""
        await self.run(self.session.page.keyboard.insert_text(text), "insert text")

    async def replace_text(self, ref: str, value: str) -> None:
        """Set the value of a text field."""
        ready = await self.prepare("fill", ref, value=value)
        if ready.get("filled"):
            return
        if value:
            await self.insert(value)
        elif ready["replace"]:
            await self.press("Delete")

    async def choose_files(
        self, paths: Sequence[str], open_chooser: Callable[[], Awaitable[Any]]
    ) -> None:
        """Choose files in the file chooser that a call opens."""
        files = self._check_files(paths)
        async with self._expecting_chooser() as chooser:
            await open_chooser()
        await self.run((await chooser.value).set_files(files), "take files")
        self.session.chooser_opened = False

    def _check_files(self, paths: Sequence[str]) -> list[str]:
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
        """Await a navigation. A failure refuses the action; it is no fault of the browser."""
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


# What performs each verb. Most are a call of the executor: see `PERFORMERS`.


async def _click(executor: ActionExecutor, action: a.Click) -> None:
    ready = await executor.prepare("point", action.ref)
    if "point" not in ready:
        return  # An option of a closed select element: it is chosen already.
    async with executor.holding(action.modifiers):
        await executor.click(ready["point"], button=action.button, count=action.count)
    if ready["files"] and action.button == "left":
        for _ in range(_TRIES):  # Its event may come late; the page may have prevented it.
            if executor.session.chooser_opened:
                break
            await asyncio.sleep(_PAUSE)


async def _hover(executor: ActionExecutor, action: a.Hover) -> None:
    ready = await executor.prepare("hover", action.ref)
    await executor.move(*ready["point"])


async def _type_into(executor: ActionExecutor, action: a.TypeInto) -> None:
    if action.clear:
        await executor.replace_text(action.ref, "")
    else:
        await executor.prepare("focus", action.ref)
    await executor.type(action.text)
    if action.submit:
        await executor.press("Enter")


async def _toggle(executor: ActionExecutor, ref: str, *, on: bool) -> None:
    ready = await executor.prepare("toggle", ref, on=on)
    if "point" not in ready:
        return
    await executor.click(ready["point"])
    if not await executor.was_toggled(ref, on=on):
        state = "off" if on else "on"
        raise ActionRefused("unchanged", f"Element [{ref}] was clicked, and is still {state}.")


async def _press(executor: ActionExecutor, action: a.Press) -> None:
    await executor.prepare("focus", action.ref)
    await executor.press(action.keys)


async def _drag_to(executor: ActionExecutor, action: a.DragTo) -> None:
    # Scrolling the target into view may move the source, so locate the source last.
    target = await executor.prepare("hover", action.target_ref)
    source = await executor.prepare("drag", action.ref)
    await executor.drag([source["point"], target["point"]])


async def _upload_file(executor: ActionExecutor, action: a.UploadFile) -> None:
    ready = await executor.prepare("file", action.ref)

    async def open_chooser() -> None:
        if "point" in ready:
            await executor.click(ready["point"])
        else:
            await executor.prepare("open_files", action.ref)

    await executor.choose_files(action.paths, open_chooser)


async def _click_at(executor: ActionExecutor, action: a.ClickAt) -> None:
    point = await executor.look_at(action.x, action.y)
    async with executor.holding(action.modifiers):
        await executor.click(point, button=action.button, count=action.count)


async def _type_at(executor: ActionExecutor, action: a.TypeAt) -> None:
    await executor.click(await executor.look_at(action.x, action.y))
    if action.clear:
        await executor.press("ControlOrMeta+a Delete")
    await executor.type(action.text)
    if action.submit:
        await executor.press("Enter")


async def _move_mouse(
    executor: ActionExecutor, action: a.MoveMouse | a.MouseDown | a.MouseUp | a.ScrollAt
) -> None:
    if action.x is not None and action.y is not None:
        await executor.move(*await executor.look_at(action.x, action.y))


async def _mouse_down(executor: ActionExecutor, action: a.MouseDown) -> None:
    await _move_mouse(executor, action)
    await executor.button_down(action.button)


async def _mouse_up(executor: ActionExecutor, action: a.MouseUp) -> None:
    await _move_mouse(executor, action)
    await executor.button_up(action.button)


async def _drag_at(executor: ActionExecutor, action: a.DragAt) -> None:
    for x, y in action.path[1:]:
        await executor.look_at(x, y)
    await executor.look_at(*action.path[0])
    await executor.drag(action.path)


async def _scroll_at(executor: ActionExecutor, action: a.ScrollAt) -> None:
    mouse = executor.session.page.mouse
    await _move_mouse(executor, action)
    await executor.run(mouse.wheel(action.dx, action.dy), "turn the mouse wheel")


async def _upload_file_at(executor: ActionExecutor, action: a.UploadFileAt) -> None:
    point = await executor.look_at(action.x, action.y)
    await executor.choose_files(action.paths, lambda: executor.click(point))


async def _hold_key(executor: ActionExecutor, action: a.HoldKey) -> None:
    async with executor.holding(keys_lib.split_chord(action.keys)):
        await asyncio.sleep(action.seconds)


async def _goto(executor: ActionExecutor, action: a.Goto) -> None:
    executor.check_url(action.url)
    await executor.navigate(executor.session.open(action.url))


async def _go(executor: ActionExecutor, steps: int) -> None:
    executor.check_travel()
    place, length = await executor.session.history()
    direction = "back" if steps < 0 else "forward"
    if not 0 <= place + steps < length:
        raise ActionRefused("no_history", f"There is no page to go {direction} to.")
    page = executor.session.page
    go = page.go_back if steps < 0 else page.go_forward
    await executor.navigate(executor.run(go(wait_until="commit"), f"go {direction}"))


async def _reload(executor: ActionExecutor, action: a.Reload) -> None:
    executor.check_travel()
    loading = executor.session.page.reload(wait_until="commit")
    await executor.navigate(executor.run(loading, "load the page again"))


async def _new_tab(executor: ActionExecutor, action: a.NewTab) -> None:
    executor.check_travel()
    if action.url:
        executor.check_url(action.url)
    page = await executor.run(executor.session.lease.context.new_page(), "open a tab")
    await executor.session.focus(page)
    if action.url:
        await executor.navigate(executor.session.open(action.url))


async def _close_tab(executor: ActionExecutor, action: a.CloseTab) -> None:
    executor.check_travel()
    if len(executor.session.tabs) == 1:
        raise ActionRefused("last_tab", "The last tab cannot be closed.")
    await executor.run(executor.session.page.close(), "close a tab")


async def _focus_tab(executor: ActionExecutor, action: a.FocusTab) -> None:
    tabs = executor.session.tabs
    if action.index >= len(tabs):
        raise ActionRefused(
            "no_such_tab", f"There is no tab {action.index}: there are {len(tabs)}."
        )
    await executor.session.focus(tabs[action.index])


async def _do_nothing(executor: ActionExecutor, action: a.Action) -> None:
    pass


async def _invalid(executor: ActionExecutor, action: a.InvalidAction) -> None:
    raise ActionRefused(f"invalid_{action.kind}", action.reason or "That was not an action.")


_Performer = Callable[[ActionExecutor, Any], Awaitable[Any]]

_BY_WORK: Mapping[lease_lib.Operation | None, Mapping[type[a.Action], _Performer]] = {
    "execute": {
        a.Click: _click,
        a.Hover: _hover,
        a.Fill: lambda executor, action: executor.replace_text(action.ref, action.value),
        a.Clear: lambda executor, action: executor.replace_text(action.ref, ""),
        a.TypeInto: _type_into,
        a.SelectOption: lambda executor, action: executor.prepare(
            "select", action.ref, options=action.options
        ),
        a.Check: lambda executor, action: _toggle(executor, action.ref, on=True),
        a.Uncheck: lambda executor, action: _toggle(executor, action.ref, on=False),
        a.Focus: lambda executor, action: executor.prepare("focus", action.ref),
        a.Press: _press,
        a.DragTo: _drag_to,
        a.UploadFile: _upload_file,
        a.ClickAt: _click_at,
        a.TypeAt: _type_at,
        a.MoveMouse: _move_mouse,
        a.MouseDown: _mouse_down,
        a.MouseUp: _mouse_up,
        a.DragAt: _drag_at,
        a.ScrollAt: _scroll_at,
        a.UploadFileAt: _upload_file_at,
        a.Scroll: lambda executor, action: executor.prepare(
            "scroll", action.ref, dx=action.dx, dy=action.dy
        ),
        a.TypeText: lambda executor, action: executor.type(action.text),
        a.InsertText: lambda executor, action: executor.insert(action.text),
        a.PressKey: lambda executor, action: executor.press(action.keys),
        a.KeyDown: lambda executor, action: executor.key_down(action.key),
        a.KeyUp: lambda executor, action: executor.key_up(action.key),
        a.HoldKey: _hold_key,
        a.CloseTab: _close_tab,
        a.FocusTab: _focus_tab,
    },
    "navigate": {
        a.GoBack: lambda executor, action: _go(executor, -1),
        a.GoForward: lambda executor, action: _go(executor, +1),
        a.Reload: _reload,
    },
    None: {
        a.Goto: _goto,
        a.NewTab: _new_tab,
        a.Wait: lambda executor, action: asyncio.sleep(action.seconds),
        **dict.fromkeys(
            (a.Screenshot, a.CursorPosition, a.SendMessage, a.Answer, a.ReportInfeasible),
            _do_nothing,
        ),
        a.InvalidAction: _invalid,
    },
}
"""By what it counts as where a pool limits its operations; None if it does no work or takes its own
turns, as a session does when it opens a URL."""

PERFORMERS: Mapping[type[a.Action], tuple[_Performer, lease_lib.Operation | None]] = {
    verb: (performer, work)
    for work, performers in _BY_WORK.items()
    for verb, performer in performers.items()
}
"""What performs each verb, and what work that is."""
