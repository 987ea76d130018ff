"""What a task of the fixture site is, and how one is written.

A task is a function from a seeded world to an assignment, registered by decorator::

    @task("log-out", difficulty=1)
    def log_out(world: World, rng: random.Random) -> Assignment:
        world.user = world.customer
        steps = (click("button", "Log out"),)
        return Assignment("Log out.", done=lambda w: not w.user, steps=steps)

The function chooses what is asked for, with `rng`, and may change the world before the visit
begins.
`done` looks at the world and at nothing else: a task is judged by what happened on the server.
`steps` are the oracle; unlike an agent it knows the world, so it need not read to find its way.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Mapping
from typing import TypeAlias

from webtraj.environments.fixture_site import names, seeding
from webtraj.environments.fixture_site.tasks.steps import Step
from webtraj.environments.fixture_site.world import World

__all__ = ["Assignment", "Judge", "SiteTask", "registered", "task"]

Judge: TypeAlias = Callable[[World], bool]


def _never(_: World) -> bool:
    return False


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """What one episode asks for."""

    goal: str
    """What the agent is told."""
    done: Judge
    """Whether it has done it. Must be false at first."""
    spoiled: Judge = _never
    """Whether it has done what cannot be undone, so that the episode has failed."""
    steps: tuple[Step, ...] = ()
    """The oracle's way; empty if there is none."""
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    """Files that the agent has at hand, by name."""


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
        """Makes a world ready for an episode of this task, and returns what is asked for in it."""
        return self.assign(world, random.Random(f"{self.name} {world.seed}"))

    @property
    def has_oracle(self) -> bool:
        """Whether its assignments come with the steps that do them."""
        return _has_oracle(self)


_TASKS: dict[str, SiteTask] = {}


def task(
    name: str, *, difficulty: int, start: str = "/"
) -> Callable[[Callable[[World, random.Random], Assignment]], SiteTask]:
    """Registers a task.

    Raises:
        ValueError: `names.TASKS` does not list it, or it is there already.
    """
    if name not in names.TASKS or name in _TASKS:
        raise ValueError(f"The task {name!r} is not listed in names.TASKS, or written twice.")

    def register(assign: Callable[[World, random.Random], Assignment]) -> SiteTask:
        made = _TASKS[name] = SiteTask(name, difficulty, start, assign)
        return made

    return register


def registered() -> Mapping[str, SiteTask]:
    """Returns the tasks registered so far."""
    return _TASKS


@functools.cache
def _has_oracle(site_task: SiteTask) -> bool:
    return bool(site_task.begin(seeding.make_world(0)).steps)
