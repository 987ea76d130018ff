"""A widget as a task: its page, the goal of a seed, the state that solves it, and its oracle.

A widget is a page of the same name and a function from a random source to a `Goal`::

    @widget(state="picker.formatDate(picker.selectedDates[0], 'Y-m-d')")
    def flatpickr(rng: random.Random) -> Goal:
        day = rng.randint(1, 31)
        return Goal(f"Leave on {day} March 2026.", f"2026-03-{day:02}", click("#leave"), ...)

`state` is a JavaScript expression of the page: what the library itself says was chosen. The episode
succeeds, and ends, as soon as that equals the goal's `wanted`. An answer or a refusal ends it too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import importlib
import json
import mimetypes
import random
import urllib.parse
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from webtraj import errors
from webtraj.environments import actions as a
from webtraj.environments import browser, local_server
from webtraj.environments.browser.oracles import OracleView, PageView, Step, act
from webtraj.environments.local_server import Request, Response
from webtraj_apps.widgets import libraries as libraries_lib

__all__ = [
    "Goal",
    "Widget",
    "WidgetEnvironment",
    "WidgetTask",
    "answer_request",
    "double_click",
    "drag_by",
    "drag_to",
    "find_widget",
    "key",
    "times",
    "type_text",
    "widget",
]

_GROUPS: Final = (
    *("dates", "choices", "values", "texts"),
    *("tables", "drag_and_drop", "overlays", "frameworks"),
)
"""The modules that hold the widgets."""

_SETTLE: Final = dataclasses.replace(browser.SERVED_PAGE, after_typing=0.5)
"""Completions come up when the typing pauses."""

_FILES: Final = Path(__file__).with_name("files")
"""The files that goals name."""

_HOST: Final = "widgets.test"
_MAX_STEPS: Final = 25
_STATE: Final = "() => {{ try {{ return JSON.stringify({0}) ?? null }} catch {{ return null }} }}"

Answers: TypeAlias = Callable[[Request], Response]
"""The server of a page that talks to one."""


@dataclasses.dataclass(frozen=True, slots=True, init=False)
class Goal:
    """The goal that a seed sets for a widget.

    Args:
        text: The goal in words.
        wanted: The state that solves it, as JSON data.
        steps: The oracle's steps.
    """

    text: str
    wanted: Any
    steps: tuple[Step, ...]

    def __init__(self, text: str, wanted: Any, *steps: Step | Iterable[Step]) -> None:
        flat = [one for step in steps for one in ([step] if callable(step) else step)]
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "wanted", wanted)
        object.__setattr__(self, "steps", tuple(flat))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Widget:
    """A widget: the functions of `widget` by name."""

    name: str
    """The name of its page: `bootstrap-modal`."""
    state: str
    """A JavaScript expression of the page: the library's own state."""
    begin: Callable[[random.Random], Goal]
    """Return the goal of a random source."""
    answers: Answers | None = None
    """Answers the page's requests under `/api/`; None if it makes none."""

    def goal(self, seed: int) -> Goal:
        """Return the goal of a seed."""
        return self.begin(random.Random(f"{self.name} {seed}"))


_WIDGETS: dict[str, Widget] = {}


def widget(
    *, state: str, answers: Answers | None = None
) -> Callable[[Callable[[random.Random], Goal]], Widget]:
    """Register a widget. Its page has the function's name, with `-` instead of `_`."""

    def register(begin: Callable[[random.Random], Goal]) -> Widget:
        name = begin.__name__.replace("_", "-")
        made = _WIDGETS[name] = Widget(name=name, state=state, begin=begin, answers=answers)
        return made

    return register


@functools.cache
def _load_widgets() -> Mapping[str, Widget]:
    for group in _GROUPS:
        importlib.import_module(f"webtraj_apps.widgets.{group}")
    return MappingProxyType(_WIDGETS)


def find_widget(name: str) -> Widget:
    """Return a widget by name.

    Raises:
        InvalidInputError: No widget has this name.
    """
    found = _load_widgets().get(name)
    if found is None:
        raise errors.InvalidInputError(f"No widget {name!r:.80}; `webtraj presets` lists them.")
    return found


# Steps of oracles that only widgets need.


def type_text(text: str) -> Step:
    """Type into what has the focus."""
    return act(a.TypeText(text))


def key(keys: str) -> Step:
    """Press keys in what has the focus."""
    return act(a.PressKey(keys))


def times(count: int, step: Step) -> list[Step]:
    """Return a step that is taken several times."""
    return [step] * count


def double_click(selector: str) -> Step:
    """Click an element twice."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        yield a.Click((await page.one(selector)).ref, count=2)

    return step


def drag_by(selector: str, dx: float, dy: float) -> Step:
    """Drag the middle of an element by some pixels."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        x, y = (await page.one(selector)).center
        yield _drag((x, y), (x + dx, y + dy))

    return step


def drag_to(selector: str, target: str, *, text: str | None = None) -> Step:
    """Drag the middle of an element to the middle of another with the mouse."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        yield _drag((await page.one(selector, text)).center, (await page.one(target)).center)

    return step


def _drag(start: tuple[float, float], end: tuple[float, float]) -> a.Action:
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    return a.DragAt((start, middle, end))


# Serving.


@functools.lru_cache(maxsize=512)
def _file(path: str) -> Response:
    kind, _, rest = path.removeprefix("/").partition("/")
    home = libraries_lib.Libraries().home if kind == "npm" else libraries_lib.PAGES
    file = (home / (rest if kind == "npm" else f"{kind}.html")).resolve()
    if not file.is_relative_to(home.resolve()) or not file.is_file():
        return Response(status=404, body=b"Not found.", content_type="text/plain")
    content = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    is_text = content.startswith("text/") or content.endswith(("javascript", "json"))
    charset = "; charset=utf-8" if is_text else ""
    cache = "max-age=31536000, immutable" if kind == "npm" else "no-store"
    return Response(body=file.read_bytes(), content_type=content + charset, cache=cache)


def answer_request(widget: Widget, request: Request) -> Response:
    """Answer a request for a page, a file of a library, or something of the widget's own."""
    path = urllib.parse.unquote(request.path)
    if path.startswith("/api/") and widget.answers is not None:
        return widget.answers(request)
    if path == "/favicon.ico":
        return Response(status=204)
    return _file(path)


# Episodes.


class WidgetTask(browser.BrowserTask):
    """A widget as a `BrowserTask`."""

    site = _HOST
    has_solution = True
    judges_refusals = True
    max_steps = _MAX_STEPS
    context_options = MappingProxyType({"locale": "en-GB", "timezone_id": "UTC"})

    def __init__(self, widget: Widget) -> None:
        self.widget = widget
        self.goal: Goal | None = None
        """The goal of the last episode."""

    @property
    def name(self) -> str:
        """See `BrowserTask.name`."""
        return f"{libraries_lib.NAME}/{self.widget.name}"

    @property
    def local_sites(self) -> browser.LocalSites:
        """The page's server. See `BrowserTask`."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            handle = functools.partial(answer_request, self.widget)
            await local_server.serve(handle, reader, writer)

        return {(_HOST, 80): answer}

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The widget's library, for the episode's record."""
        library = libraries_lib.library_of(self.widget.name)
        row = libraries_lib.load_table()[library]
        return {"library": f"{row['package']} {row['version']}", "split": row["split"]}

    async def setup(self, session: browser.BrowserSession, seed: int) -> None:
        """See `BrowserTask.setup`."""
        self.goal = self.widget.goal(seed)
        await session.open(f"http://{_HOST}/{self.widget.name}")

    def goal_of(self, begun: Any) -> str:
        """See `BrowserTask.goal_of`."""
        assert self.goal is not None, "There is no goal before the first episode."
        return self.goal.text

    async def read_state(self, session: browser.BrowserSession) -> Any:
        """Return the state of the widget's library; None if the page has none."""
        script = _STATE.format(self.widget.state)
        text = await session.run(session.page.evaluate(script), what="read a widget's state")
        return None if text is None else json.loads(text)

    async def validate(
        self, session: browser.BrowserSession, state: Any, answer: str | None
    ) -> browser.Verdict:
        """See `BrowserTask.validate`."""
        assert self.goal is not None, "There is no goal before the first episode."
        found = await self.read_state(session)
        solved = found == self.goal.wanted
        return browser.Verdict(
            done=solved or answer is not None,
            reward=float(solved),
            success=solved,
            raw_reward=float(solved),
            scaled_reward=float(solved),
            reason="" if solved else f"The state is {found!r:.200}, not {self.goal.wanted!r:.200}.",
        )

    async def validate_refusal(
        self, session: browser.BrowserSession, reason: str
    ) -> browser.Verdict:
        """See `BrowserTask.validate_refusal`."""
        return browser.Verdict(done=True, reason="The task can be done.")

    def solve(self, session: browser.BrowserSession, goal: str) -> browser.ScriptedSolution:
        """See `BrowserTask.solve`."""
        return browser.ScriptedSolution(self._solution(session, goal))

    async def _solution(
        self, session: browser.BrowserSession, goal: str
    ) -> AsyncGenerator[a.Action, None]:
        assert self.goal is not None, "There is no goal before the first episode."
        view = PageView(session, goal=goal)
        for step in self.goal.steps:
            async for action in step(view):
                yield action


class WidgetEnvironment(browser.BrowserEnvironment):
    """An environment of widgets; each `reset` starts the next one.

    Args:
        tasks: A widget's name, or several: `flatpickr`.
        seed: Episode k, counted over all resets, has the seed `seed + k`.
        pool: The browser pool; None shares one (see `BrowserEnvironment`).
        observe: Channels to observe, or an `Observe`; None for the default ones.
        max_steps: After this many steps an episode is truncated; None never does. By default 25.
        settle: The condition for a page to be settled after an action.
        viewport: Width and height in CSS pixels.
        perturbation: A change of what surrounds the tasks (see `BrowserEnvironment`).

    Raises:
        InvalidInputError: A widget's name is unknown.
        MissingDependencyError: The libraries are not installed.
    """

    def __init__(
        self,
        tasks: str | Sequence[str],
        *,
        seed: int = 0,
        pool: browser.BrowserPool | None = None,
        observe: browser.Observe | Iterable[str] | None = None,
        max_steps: int | Literal["task"] | None = "task",
        settle: browser.SettlePolicy = _SETTLE,
        viewport: tuple[int, int] = (1024, 720),
        perturbation: browser.Perturbation | str | None = None,
    ) -> None:
        names = [tasks] if isinstance(tasks, str) else list(tasks)
        libraries_lib.Libraries().require()
        network = browser.OriginPolicy(allow=(f"http://{_HOST}",))
        super().__init__(
            [WidgetTask(find_widget(name)) for name in names],
            seed=seed,
            pool=pool,
            observe=observe,
            max_steps=max_steps,
            settle=settle,
            policy=browser.WebAccess(network=network, uploads=_FILES),
            redact_passwords=False,
            viewport=viewport,
            perturbation=perturbation,
        )

    @property
    def widget_task(self) -> WidgetTask:
        """The task of the current episode, or of the first one."""
        return cast(WidgetTask, self.task)
