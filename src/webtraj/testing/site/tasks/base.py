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
from collections.abc import Callable, Mapping
from typing import TypeAlias

from webtraj.environments.browser.oracles import (
    Step,
    act,
    answer,
    check,
    click,
    click_inside,
    drag,
    fill,
    hover,
    scroll_until,
    select,
    upload,
    wait_for_end,
    wait_until,
)
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
