"""What an oracle sees of a page, and ready-made steps for scripted oracles.

An oracle is an asynchronous generator of actions, one at a time; each is performed before the
generator continues. A step is such a generator for one element, which it finds when its turn comes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from webtraj import errors as errors_lib
from webtraj.environments import actions as a
from webtraj.environments.browser import page_script as page_script_lib
from webtraj.environments.browser import session as session_lib

__all__ = [
    "PATIENCE",
    "Element",
    "OracleError",
    "OracleView",
    "PageView",
    "Step",
    "act",
    "answer",
    "check",
    "clear",
    "click",
    "click_inside",
    "drag",
    "fill",
    "goto",
    "hover",
    "press",
    "scroll_until",
    "select",
    "uncheck",
    "upload",
    "wait_for_end",
    "wait_until",
]


class OracleError(errors_lib.WebtrajError, RuntimeError):
    """The page is not as an oracle expects: a bug in the oracle, or a new version of the page."""


@dataclasses.dataclass(frozen=True, slots=True)
class Element:
    """An element of the page, with properties for selecting it."""

    ref: str
    """Its ref for actions."""
    tag: str
    """Its tag, in lower case."""
    text: str
    """Its text content with collapsed white space."""
    value: str
    """Its `value` property; empty if it has none."""
    checked: bool
    visible: bool
    """Whether it is rendered; it may still be covered or outside the viewport."""
    box: tuple[float, float, float, float]
    """x, y, width and height in CSS pixels of the viewport."""
    attributes: Mapping[str, str]

    @property
    def center(self) -> tuple[float, float]:
        """The middle of its box."""
        x, y, width, height = self.box
        return x + width / 2, y + height / 2


class OracleView(Protocol):
    """The page of one episode, as its oracle sees it."""

    @property
    def goal(self) -> str:
        """The episode's goal."""

    async def all(self, selector: str) -> list[Element]:
        """Return the elements that match a CSS selector, in document order."""

    async def one(self, selector: str, text: str | None = None) -> Element:
        """Return the first element that matches, with exactly this text if `text` is given.

        Raises:
            OracleError: There is none.
        """

    async def find(self, path: Sequence[str], text: str | None = None) -> str | None:
        """Return the ref of the first element that a path of CSS selectors matches, or None.

        Args:
            path: Selectors, each inside the element before: a frame, a shadow host or any other.
            text: The element's whole text, if it must match too.
        """

    async def evaluate(self, function: str, argument: Any = None) -> Any:
        """Call a JavaScript function in the page and return its result.

        The function gets the argument. In tasks with their own script, it also gets `refOf`, which
        returns an element's ref: `"(limit, refOf) => refOf(document.querySelector('svg'))"`.
        Argument and result are JSON; a promise is awaited.
        """


class PageView:
    """The `OracleView` of a live page."""

    def __init__(self, session: session_lib.BrowserSession, *, goal: str) -> None:
        self._session = session
        self._goal = goal

    @property
    def goal(self) -> str:
        """See `OracleView.goal`."""
        return self._goal

    async def all(self, selector: str) -> list[Element]:
        """See `OracleView.all`."""
        found = await self._session.call("query", selector)
        return [Element(**{**fields, "box": tuple(fields["box"])}) for fields in found]

    async def one(self, selector: str, text: str | None = None) -> Element:
        """See `OracleView.one`."""
        elements = await self.all(selector)
        for element in elements:
            if text is None or element.text == text:
                return element
        texts = [element.text for element in elements]
        raise OracleError(
            f"No element {selector!r} with the text {text!r} in the page; there are {texts}."
            if text is not None
            else f"No element {selector!r} in the page."
        )

    async def find(self, path: Sequence[str], text: str | None = None) -> str | None:
        """See `OracleView.find`."""
        found = await self._session.call("find", [list(path), text])
        return None if found is None else str(found)

    async def evaluate(self, function: str, argument: Any = None) -> Any:
        """See `OracleView.evaluate`."""
        page = self._session.page
        script = page_script_lib.SCRIPT_PROPERTY
        javascript = (
            f"async text => "
            f"JSON.stringify(await ({function})(JSON.parse(text), {script}?.refOf) ?? null)"
        )
        text = await self._session.run(
            page.evaluate(javascript, page_script_lib.to_argument(argument)),
            what="answer an oracle",
        )
        return json.loads(text)


# The steps of oracles. Each finds its element when its turn comes.

Step: TypeAlias = Callable[[OracleView], AsyncIterator[a.Action]]

_MAX_WAITS = 30
PATIENCE = (0.1, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0, 3.0, 3.0)
"""Seconds to wait between looks for what should come: on a busy machine that takes a while."""


async def _ref(page: OracleView, path: tuple[str, ...], text: str | None) -> str:
    found = await page.find(path, text)
    if found is None:
        raise OracleError(f"The page has no element {' > '.join(path)!r} with the text {text!r}.")
    return found


_HAS_MORE = "() => scrollY + innerHeight < document.documentElement.scrollHeight - 1"
"""Whether the page scrolls any further down."""


def act(action: a.Action) -> Step:
    """Take an action that needs no element."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        yield action

    return step


def answer(text: str) -> Step:
    """Give the answer."""
    return act(a.Answer(text))


def _on_element(
    make: Callable[[str], a.Action], path: tuple[str, ...], text: str | None = None
) -> Step:
    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        yield make(await _ref(page, path, text))

    return step


def click(selector: str, text: str | None = None, *, inside: tuple[str, ...] = ()) -> Step:
    """Click an element.

    Args:
        selector: A CSS selector.
        text: The element's whole text, in case the selector matches several.
        inside: Selectors of the elements, frames or shadow hosts it is in, from the outermost.
    """
    return _on_element(a.Click, (*inside, selector), text)


def hover(selector: str) -> Step:
    """Move the mouse over an element."""
    return _on_element(a.Hover, (selector,))


def fill(selector: str, value: str, *, inside: tuple[str, ...] = ()) -> Step:
    """Fill in a field."""
    return _on_element(lambda ref: a.Fill(ref, value), (*inside, selector))


def select(selector: str, *options: str, inside: tuple[str, ...] = ()) -> Step:
    """Choose options."""
    return _on_element(lambda ref: a.SelectOption(ref, options), (*inside, selector))


def check(selector: str) -> Step:
    """Tick a box."""
    return _on_element(a.Check, (selector,))


def uncheck(selector: str) -> Step:
    """Untick a box."""
    return _on_element(a.Uncheck, (selector,))


def clear(selector: str) -> Step:
    """Empty a field."""
    return _on_element(a.Clear, (selector,))


def press(selector: str, keys: str, *, inside: tuple[str, ...] = ()) -> Step:
    """Press keys in an element, such as `Enter` or `Control+a`."""
    return _on_element(lambda ref: a.Press(ref, keys), (*inside, selector))


def goto(url: str) -> Step:
    """Open a URL."""
    return act(a.Goto(url))


def upload(selector: str, path: str) -> Step:
    """Choose a file."""
    return _on_element(lambda ref: a.UploadFile(ref, (path,)), (selector,))


def drag(selector: str, text: str, target: str) -> Step:
    """Drag an element onto another."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        onto = await _ref(page, (target,), None)
        yield a.DragTo(await _ref(page, (selector,), text), onto)

    return step


def click_inside(selector: str, x: float, y: float) -> Step:
    """Click at a point of an element, counted from its top left corner."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        left, top, _, _ = (await page.one(selector)).box
        yield a.ClickAt(left + x, top + y)

    return step


def wait_for_end() -> Step:
    """Wait for the response to a frame of another origin, which the page cannot see."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        for _ in range(_MAX_WAITS):
            yield a.Wait(0.1)

    return step


def scroll_until(selector: str) -> Step:
    """Scroll down until an element appears, waiting while the page loads more."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        for _ in range(_MAX_WAITS):
            if await page.find((selector,)) is not None:
                return
            yield a.Scroll(0, 2000) if await page.evaluate(_HAS_MORE) else a.Wait(0.1)

    return step


def wait_until(selector: str) -> Step:
    """Wait until an element appears, such as on a tab that is opening."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        for seconds in PATIENCE:
            if await page.find((selector,)) is not None:
                return
            yield a.Wait(seconds)

    return step
