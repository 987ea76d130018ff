"""Tasks of the fixture site, and how to write one.

A task is a function from a seeded world to an assignment, registered by decorator::

    @task("log-out", difficulty=1)
    def log_out(world: World, rng: random.Random) -> Assignment:
        world.user = world.customer
        steps = (click("button", "Log out"),)
        return Assignment("Log out.", done=lambda w: not w.user, steps=steps)

The function chooses the goal with `rng`, and may change the world before the visit begins.
`done` looks only at the world: a task is judged by what happened on the server.
`steps` are the oracle; unlike an agent it knows the world, so it need not read to find its way.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TypeAlias

from webtraj.environments import actions as a
from webtraj.environments.miniwob.oracles import OracleError, OracleView
from webtraj.testing.site import names, world
from webtraj.testing.site.world import World

__all__ = [
    "Assignment",
    "Judge",
    "SiteTask",
    "Step",
    "act",
    "answer",
    "check",
    "click",
    "click_inside",
    "drag",
    "fill",
    "hover",
    "log_in",
    "open_product",
    "registered",
    "scroll_until",
    "select",
    "task",
    "upload",
    "wait_for_end",
    "wait_until",
]

# The steps of oracles. Each finds its element when its turn comes.

Step: TypeAlias = Callable[[OracleView], AsyncIterator[a.Action]]

_MAX_WAITS = 30

_FIND = """
([path, text], refOf) => {
  let roots = [document];
  for (const [i, selector] of path.entries()) {
    let found = roots.flatMap(root => [...root.querySelectorAll(selector)]);
    if (i === path.length - 1) {
      const squeezed = element => element.textContent.trim().replace(/\\s+/g, " ");
      const fitting = found.filter(element => text === null || squeezed(element) === text);
      return fitting.length ? refOf(fitting[0]) : null;
    }
    roots = found.map(element => element.shadowRoot ?? element.contentDocument ?? element);
  }
}
"""


async def _ref(page: OracleView, path: tuple[str, ...], text: str | None) -> str:
    found = await page.evaluate(_FIND, [path, text])
    if found is None:
        raise OracleError(f"The page has no element {' > '.join(path)!r} with the text {text!r}.")
    return str(found)


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
        text: The element's whole text, if more than one matches.
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
            if await page.evaluate(_FIND, [(selector,), None]) is not None:
                return
            yield a.Scroll(0, 2000) if await page.evaluate(_HAS_MORE) else a.Wait(0.1)

    return step


def wait_until(selector: str) -> Step:
    """Wait until an element appears, such as on a tab that is opening."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        for _ in range(_MAX_WAITS):
            if await page.evaluate(_FIND, [(selector,), None]) is not None:
                return
            yield a.Wait(0.1)

    return step


def open_product(name: str) -> tuple[Step, ...]:
    """Open a product's page by searching for it."""
    return (
        fill("header input[name=q]", name),
        click("header button", "Search"),
        click(".products a", name),
    )


def log_in(username: str, password: str) -> tuple[Step, ...]:
    """Log in, from any page."""
    return (
        click("header a", "Log in"),
        fill("#field-username", username),
        fill("#field-password", password),
        click("main button", "Log in"),
    )


Judge: TypeAlias = Callable[[World], bool]


def _never(_: World) -> bool:
    return False


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of one episode."""

    goal: str
    """The goal."""
    done: Judge
    """Whether the goal is reached. Must be false at first."""
    spoiled: Judge = _never
    """Whether an irreversible mistake was made, so that the episode failed."""
    steps: tuple[Step, ...] = ()
    """The oracle's steps; empty if there are none."""
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    """Files that the agent can upload, by name."""


@dataclasses.dataclass(frozen=True, slots=True)
class SiteTask:
    """A task of the fixture site."""

    name: str
    difficulty: int
    """1 (a click or two) to 5 (long, or with an obstacle that few agents pass)."""
    start: str
    """The path where it begins."""
    assign: Callable[[World, random.Random], Assignment]

    def begin(self, world: World) -> Assignment:
        """Prepare a world for an episode of this task, and return its assignment."""
        return self.assign(world, random.Random(f"{self.name} {world.seed}"))

    @property
    def has_oracle(self) -> bool:
        """Whether its assignments have oracle steps."""
        return _has_oracle(self)


_TASKS: dict[str, SiteTask] = {}


def task(
    name: str, *, difficulty: int, start: str = "/"
) -> Callable[[Callable[[World, random.Random], Assignment]], SiteTask]:
    """Register a task.

    Raises:
        ValueError: `names.TASKS` does not list it, or it is already registered.
    """
    if name not in names.TASKS or name in _TASKS:
        raise ValueError(f"The task {name!r} is not listed in names.TASKS, or is registered twice.")

    def register(assign: Callable[[World, random.Random], Assignment]) -> SiteTask:
        made = _TASKS[name] = SiteTask(name, difficulty, start, assign)
        return made

    return register


def registered() -> Mapping[str, SiteTask]:
    """Return the tasks registered so far."""
    return _TASKS


@functools.cache
def _has_oracle(site_task: SiteTask) -> bool:
    return bool(site_task.begin(world.make_world(0)).steps)
