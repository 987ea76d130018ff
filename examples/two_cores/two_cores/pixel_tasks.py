"""Tasks that cannot be solved without looking: the preset `pixels`.

A page is one canvas of 128 by 128 pixels. Its accessibility tree is the same on all pages, and its
goal does not say where anything is. The first click ends the episode.

| task | to click |
|---|---|
| `color` | the shape of a colour, one of four in different colours |
| `number` | a number that is shown, on a keypad that is drawn below it |
| `odd` | the shape that differs from eight others in form or colour |
| `button` | the button with a word, one of three that are drawn, and nothing else |

`pixels.html` draws the pages, with the constants that are here. `faded=True` draws them with little
contrast: the same tasks in colours that a policy has not learned from, as after a redesign.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, Final

import webtraj
from webtraj import errors
from webtraj.environments import actions, browser, local_server

__all__ = [
    "CELL",
    "COLORS",
    "GOALS",
    "KINDS",
    "SIZE",
    "URL",
    "WORDS",
    "PixelTask",
    "make_environment",
    "register",
]

GOALS: Final = {
    "color": "Click the {} shape.",
    "number": "Click the number in the picture.",
    "odd": "Click the odd one out.",
    "button": "Press the button {}.",
}
"""The goal of each kind of page, with a place for the colour or the word."""
KINDS: Final = tuple(GOALS)
SIZE: Final = 128
"""Width and height of a page in CSS pixels."""
CELL: Final = 16
"""Width and height of the cells whose middles the oracle clicks."""

COLORS: Final = {
    "red": "#d62728",
    "green": "#2ca02c",
    "blue": "#1f5fd0",
    "yellow": "#e8c020",
    "purple": "#8e3fb5",
}
"""What shapes are drawn with, by the names in goals."""
WORDS: Final = ("OK", "NO", "GO", "UP")
"""The words on buttons."""

_HOST: Final = "pixels.test"
URL: Final = f"http://{_HOST}/"
"""The address of all pages."""
_PAGE: Final = Path(__file__).with_name("pixels.html")


class PixelTask(browser.BrowserTask):
    """A kind of page as a task.

    Args:
        kind: One of `KINDS`.
        faded: Whether the picture has little contrast.
    """

    site = _HOST
    has_solution = True
    max_steps = 1
    shares_context = True  # The page stores nothing.

    def __init__(self, kind: str, *, faded: bool = False) -> None:
        self._kind = kind
        self._faded = faded
        self._goal = ""

    @property
    def name(self) -> str:
        """See `BrowserTask.name`."""
        return f"pixels/{self._kind}"

    @property
    def local_sites(self) -> browser.LocalSites:
        """See `BrowserTask.local_sites`. The same for all tasks, so that they share a page."""
        return _SITES

    async def setup(self, session: browser.BrowserSession, seed: int) -> None:
        """See `BrowserTask.setup`."""
        if session.page.url != URL:
            await session.open(URL)
        named = await _call(session, "begin", [self._kind, seed, self._faded])
        self._goal = GOALS[self._kind].format(named)

    def goal_of(self, begun: Any) -> str:
        """See `BrowserTask.goal_of`."""
        return self._goal

    async def validate(
        self, session: browser.BrowserSession, state: Any, answer: str | None
    ) -> browser.Verdict:
        """See `BrowserTask.validate`."""
        right = await _call(session, "outcome")
        return browser.Verdict(
            done=right is not None or answer is not None, reward=float(bool(right)),
            success=bool(right), raw_reward=float(bool(right)),
        )  # fmt: skip

    def solve(self, session: browser.BrowserSession, goal: str) -> browser.ScriptedSolution:
        """See `BrowserTask.solve`."""
        return browser.ScriptedSolution(_solution(session))


async def _solution(session: browser.BrowserSession) -> AsyncGenerator[actions.Action, None]:
    x, y = await _call(session, "solution")
    yield actions.ClickAt(x, y)


async def _call(session: browser.BrowserSession, function: str, argument: Any = None) -> Any:
    """Call a function of the page."""
    calling = session.page.evaluate(f"argument => {function}(argument)", argument)
    return await session.run(calling, what=f"call {function} of a page of pixels")


def _answer(request: local_server.Request) -> local_server.Response:
    if request.path == "/":
        return local_server.Response(body=_PAGE.read_bytes())
    if request.path == "/constants.js":
        values = {"SIZE": SIZE, "CELL": CELL, "COLORS": COLORS, "WORDS": WORDS}
        script = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
        return local_server.Response(body=script.encode(), content_type="text/javascript")
    return local_server.Response(status=404, body=b"Not found.", content_type="text/plain")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await local_server.serve(_answer, reader, writer)


_SITES: Final[browser.LocalSites] = {(_HOST, 80): _serve}
_POLICY: Final = browser.WebAccess(network=browser.OriginPolicy(allow=(f"http://{_HOST}",)))


def make_environment(
    tasks: Sequence[str], *, faded: bool = False, **options: Any
) -> browser.BrowserEnvironment:
    """Make an environment of pages of pixels.

    Args:
        tasks: Kinds of pages, played in turn.
        faded: Whether the pictures have little contrast.
        options: Options of `BrowserEnvironment`.

    Raises:
        InvalidInputError: A kind is unknown, or an option is invalid.
    """
    for kind in tasks:
        if kind not in KINDS:
            raise errors.InvalidInputError(
                f"No page of pixels {kind!r:.40}; the kinds are {', '.join(KINDS)}."
            )
    settings = {
        "viewport": (SIZE, SIZE),
        "policy": _POLICY,
        **options,
    }
    return browser.BrowserEnvironment([PixelTask(kind, faded=faded) for kind in tasks], **settings)


def register() -> None:
    """Register the presets `pixels/all` and `pixels/KIND`."""
    for name, kinds in {"all": KINDS, **{kind: (kind,) for kind in KINDS}}.items():
        webtraj.register(
            f"pixels/{name}",
            "two_cores.pixel_tasks:make_environment",
            description=f"Drawn pages: {', '.join(kinds)}.",
            tasks=kinds,
            uses_browser=True,
        )
