"""Tasks that cannot be solved without looking: the preset `pixels`.

A page is one canvas of 128 by 128 pixels. Its accessibility tree is the same on all pages, and its
goal does not say where anything is. The first click ends the episode.

| task | goal |
|---|---|
| `color` | "Click the red shape.", one of four shapes in different colours |
| `number` | "Click the number in the picture.", on a keypad that is drawn below it |
| `odd` | "Click the odd one out.", which differs from eight others in shape or colour |
| `button` | "Press the button OK.", one of three that are drawn, and nothing else |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, Final

import webtraj
from webtraj import errors
from webtraj.environments import actions, browser, local_server

__all__ = ["CELL", "COLORS", "KINDS", "SIZE", "WORDS", "PixelTask", "make_environment", "register"]

KINDS: Final = ("color", "number", "odd", "button")
SIZE: Final = 128
"""Width and height of a page in CSS pixels."""
CELL: Final = 16
"""Width and height of the cells whose middles the oracle clicks."""

COLORS: Final = ("red", "green", "blue", "yellow", "purple")
WORDS: Final = ("OK", "NO", "GO", "UP")
"""The colours and words of goals, as `pixels.html` has them."""

_HOST: Final = "pixels.test"
_URL: Final = f"http://{_HOST}/"
_PAGE: Final = Path(__file__).with_name("pixels.html")


class PixelTask(browser.BrowserTask):
    """A kind of page as a task.

    Args:
        kind: One of `KINDS`.
    """

    site = _HOST
    has_solution = True
    max_steps = 1
    shares_context = True  # The page stores nothing.

    def __init__(self, kind: str) -> None:
        self._kind = kind
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
        if session.page.url != _URL:
            await session.open(_URL)
        self._goal = await _call(session, "begin", [self._kind, seed])

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
    if request.path != "/":
        return local_server.Response(status=404, body=b"Not found.", content_type="text/plain")
    return local_server.Response(body=_PAGE.read_bytes())


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await local_server.serve(_answer, reader, writer)


_SITES: Final[browser.LocalSites] = {(_HOST, 80): _serve}
_POLICY: Final = browser.WebAccess(network=browser.OriginPolicy(allow=(f"http://{_HOST}",)))


def make_environment(tasks: Sequence[str], **options: Any) -> browser.BrowserEnvironment:
    """Make an environment of pages of pixels.

    Args:
        tasks: Kinds of pages, played in turn.
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
    return browser.BrowserEnvironment([PixelTask(kind) for kind in tasks], **settings)


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
