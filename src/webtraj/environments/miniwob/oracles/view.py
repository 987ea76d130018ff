"""What an oracle sees of a page."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

from webtraj import errors as errors_lib
from webtraj.environments.browser import page_script as page_script_lib
from webtraj.environments.browser import session as session_lib

__all__ = ["Element", "OracleError", "OracleView", "PageView", "matched", "quoted"]


class OracleError(errors_lib.WebtrajError, RuntimeError):
    """The page is not as an oracle expects: a fault of the oracle, or a new version of the page."""


@dataclasses.dataclass(frozen=True, slots=True)
class Element:
    """An element of the page, with what a script needs to choose among them."""

    ref: str
    """What actions call it."""
    tag: str
    """Its tag, in lower case."""
    text: str
    """Its text content, white space squeezed."""
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
        """What the episode asks for."""

    async def all(self, selector: str) -> list[Element]:
        """Returns the elements that match a CSS selector, in the order of the document."""

    async def one(self, selector: str, text: str | None = None) -> Element:
        """Returns the first element that matches, with exactly this text if `text` is given.

        Raises:
            OracleError: There is none.
        """

    async def evaluate(self, function: str, argument: Any = None) -> Any:
        """Returns what a JavaScript function, a part of the oracle's source, says in the page.

        The function is called with the argument and with `refOf`, which gives an element's ref:
        `"(limit, refOf) => refOf(document.querySelector('svg'))"`. Both ways only JSON passes; a
        promise is awaited.
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

    async def evaluate(self, function: str, argument: Any = None) -> Any:
        """See `OracleView.evaluate`."""
        page = self._session.page
        script = page_script_lib.SCRIPT_PROPERTY
        javascript = (
            f"async text => "
            f"JSON.stringify(await ({function})(JSON.parse(text), {script}.refOf) ?? null)"
        )
        text = await self._session.run(
            page.evaluate(javascript, page_script_lib.to_argument(argument)),
            what="answer an oracle",
        )
        return json.loads(text)


def quoted(text: str) -> list[str]:
    """Returns the quoted parts of a goal, in order.

    >>> quoted('Enter "bob" and press "Log in".')
    ['bob', 'Log in']
    """
    return re.findall(r'"([^"]*)"', text)


def matched(pattern: str, goal: str) -> tuple[str, ...]:
    r"""Returns the groups of a pattern that describes the whole goal.

    >>> matched(r"Select (.+) and click (.+)\.", "Select bob and click Submit.")
    ('bob', 'Submit')

    Raises:
        OracleError: The goal is not of that form.
    """
    match = re.fullmatch(pattern, goal)
    if match is None:
        raise OracleError(f"The goal is not as expected, {pattern!r}: {goal!r}.")
    return match.groups(default="")
