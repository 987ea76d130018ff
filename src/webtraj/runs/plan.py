"""The plan of a rollout: the episodes to play, each with a seed.

A plan depends only on the tasks, the number of episodes and the run's seed. An episode's seed
depends on the run's seed, the task's name and the attempt's number, so it does not change with the
number of workers, with the worker that plays it, or with the other episodes.

Episodes that policy-gradient training compares (as in GRPO) form a *group*: they share the task and
the environment's seed, and differ in what the agent samples.

A plan is written to a file before its first episode starts, so that a resumed rollout plays exactly
the remaining episodes::

    {"kind": "plan", "version": 1, "seed": 0, "episodes": 2}
    {"row": 0, "attempt": 0, "seed": 621520978, "task": {"name": "click-test", ...}}
    {"row": 1, "attempt": 1, "seed": 2088891589, "task": {"name": "click-test", ...}}

A row of a group also has `"group"`: the group's number among those of its task. A row that forks
a recorded episode has `"fork": {"episode_id": "...", "step": 3}`, and `"options"` if the episode
was recorded with options of its preset.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import orjson

from webtraj import errors, registry
from webtraj.environments.tasks import TaskSpec, check_same
from webtraj.store import records
from webtraj.trajectory import Count

__all__ = [
    "ForkPoint",
    "PlannedEpisode",
    "check_groups",
    "episode_seed",
    "plan_episodes",
    "plan_from_bytes",
    "plan_tasks",
    "plan_to_bytes",
    "specs_of_presets",
]

_VERSION = 1
_MOST_EPISODES = 10_000_000
_Line = TypeVar("_Line")


@dataclasses.dataclass(frozen=True, slots=True)
class ForkPoint:
    """The step of a recorded episode at which another agent takes over."""

    episode_id: str
    """The recorded episode."""
    step: Count
    """The number of its actions to repeat."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEpisode:
    """One episode to play."""

    row: int
    """Place in the plan, from 0."""
    spec: TaskSpec
    """The task to play."""
    attempt: int
    """Number of earlier attempts at this task in the plan, or in its group if it has one."""
    seed: int
    """Seed of the environment, from 0 to 2**31 - 1."""
    group: int | None = None
    """Number of the group among those of the task; None without groups."""
    fork: ForkPoint | None = None
    """The point at which the episode forks a recorded one; None if it does not."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Options of the preset with which the forked episode was recorded. Those of the run override
    them."""

    @property
    def task(self) -> str:
        """The task's name."""
        return self.spec.name

    @property
    def selection(self) -> registry.SelectedPreset:
        """The preset that plays the episode, restricted to its task.

        Raises:
            InvalidInputError: The preset's tasks have changed since the plan was made.
            InvalidSelectorError: Likewise.
            UnknownPresetError: No preset has that name any more.
        """
        selection = registry.select(self.spec.preset)
        tasks = selection.tasks
        if tasks is None or (len(tasks) == 1 and self.spec.name == self.spec.preset):
            return selection  # A row of a task file may be named by its preset alone.
        if [_task_name(task) for task in tasks] != [self.spec.name]:
            raise errors.InvalidInputError(
                f"The task {self.spec.name!r} has the preset {self.spec.preset!r}, which plays "
                f"{', '.join(map(_task_name, tasks[:3]))}. Give the task that name; or, if the "
                "plan is of an earlier version, play it with the package versions that made it."
            )
        return selection


def plan_episodes(
    presets: str | Sequence[str],
    *,
    episodes: int | None = None,
    seed: int = 0,
    group_size: int = 1,
) -> tuple[PlannedEpisode, ...]:
    """Plan a rollout of presets.

    Args:
        presets: One selector or several.
        episodes: How many episodes to play in total, spread evenly over the tasks. Default: one for
            each task.
        seed: The run's seed.
        group_size: How many episodes share a task and a seed. `episodes` counts all of them and
            must be a multiple of it. By default each task has one group.

    Returns:
        The episodes. Episodes of the same task are adjacent, so that a worker rarely has to open
        another environment.

    Raises:
        InvalidInputError: No preset is given, `episodes` or `group_size` is not positive or too
            large, or `episodes` does not divide into groups.
        InvalidSelectorError: A selector is malformed, or its preset has no such tasks.
        UnknownPresetError: No preset has that name.
    """
    selectors = [presets] if isinstance(presets, str) else list(presets)
    if not selectors:
        raise errors.InvalidInputError("A rollout needs at least one preset; got none.")
    check_groups(episodes, group_size)
    _check_size(episodes or 0)
    specs = specs_of_presets(selectors)
    total = len(specs) if episodes is None else episodes // group_size
    each, rest = divmod(total, len(specs))
    return plan_tasks(
        (spec for index, spec in enumerate(specs) for _ in range(each + (index < rest))),
        seed=seed,
        group_size=group_size,
    )


def specs_of_presets(selectors: Iterable[str]) -> list[TaskSpec]:
    """Return the tasks that selectors name, in order.

    Raises:
        InvalidSelectorError: A selector is malformed, or its preset has no such tasks.
        UnknownPresetError: No preset has that name.
    """
    return [spec for selector in selectors for spec in _specs(registry.select(selector))]


def plan_tasks(
    specs: Iterable[TaskSpec], *, attempts: int = 1, seed: int = 0, group_size: int = 1
) -> tuple[PlannedEpisode, ...]:
    """Plan one or several attempts at each task. A repeated task gets further attempts.

    Args:
        specs: The tasks. Tasks with the same name must have the same goal and start URL.
        attempts: Attempts at each task, with different seeds.
        seed: The run's seed.
        group_size: Episodes of each attempt, all with the same seed.

    Raises:
        InvalidInputError: `attempts` or `group_size` is not positive, or two tasks have one name.
    """
    if attempts < 1:
        raise errors.InvalidInputError(f"attempts must be 1 or more; got {attempts}.")
    check_groups(None, group_size)
    _check_size(attempts * group_size)
    planned: list[PlannedEpisode] = []
    counts: collections.Counter[str] = collections.Counter()
    first: dict[str, TaskSpec] = {}
    for spec in specs:
        check_same(first.setdefault(spec.name, spec), spec)
        for _ in range(attempts):
            number = counts[spec.name]
            counts[spec.name] += 1
            for member in range(group_size):
                planned.append(
                    PlannedEpisode(
                        row=len(planned),
                        spec=spec,
                        attempt=number if group_size == 1 else member,
                        seed=episode_seed(seed, spec.name, number),
                        group=None if group_size == 1 else number,
                    )
                )
    return tuple(planned)


def _check_size(episodes: int) -> None:
    if episodes > _MOST_EPISODES:
        raise errors.InvalidInputError(
            f"episodes must be at most {_MOST_EPISODES}, since a run's plan is kept in memory; got "
            f"{episodes}. Play several runs, with seeds of their own."
        )


def check_groups(episodes: int | None, group_size: int) -> None:
    """Check that the number of episodes is a multiple of the group size.

    Raises:
        InvalidInputError: A number is not positive, or they do not.
    """
    if episodes is not None and episodes < 1:
        raise errors.InvalidInputError(f"episodes must be 1 or more; got {episodes}.")
    if group_size < 1:
        raise errors.InvalidInputError(f"group_size must be 1 or more; got {group_size}.")
    if episodes is not None and episodes % group_size:
        raise errors.InvalidInputError(
            f"{episodes} episodes do not divide into groups of {group_size}; give a multiple of "
            f"{group_size}, such as {episodes + -episodes % group_size}."
        )


def episode_seed(run_seed: int, task: str, attempt: int) -> int:
    """Return an episode's seed, from 0 to 2**31 - 1, a range that all seeded systems accept.

    >>> episode_seed(0, "click-test", 0), episode_seed(0, "click-test", 1)
    (621520978, 2088891589)
    """
    digest = hashlib.blake2b(f"{run_seed}\0{task}\0{attempt}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def plan_to_bytes(plan: Sequence[PlannedEpisode], *, seed: int) -> bytes:
    """Return the content of a plan's file. Equal plans give equal bytes."""
    header = {"kind": "plan", "version": _VERSION, "seed": seed, "episodes": len(plan)}
    rows = (
        {
            "row": planned.row,
            "attempt": planned.attempt,
            "seed": planned.seed,
            **({} if planned.group is None else {"group": planned.group}),
            **({} if planned.fork is None else {"fork": dataclasses.asdict(planned.fork)}),
            **({"options": planned.options} if planned.options else {}),
            "task": planned.spec.to_data(),
        }
        for planned in plan
    )
    return b"".join(orjson.dumps(line) + b"\n" for line in (header, *rows))


@dataclasses.dataclass(frozen=True, slots=True)
class _Header:
    kind: str
    version: Count
    episodes: Count


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    row: Count
    attempt: Count
    seed: Count
    task: Mapping[str, object]
    group: Count | None = None
    fork: ForkPoint | None = None
    options: Mapping[str, object] | None = None


def plan_from_bytes(content: bytes, where: str) -> tuple[PlannedEpisode, ...]:
    """Return the plan in a file's content. `where` names the file in errors.

    Raises:
        InvalidInputError: The file is damaged or from a newer webtraj; the message names the field.
    """
    first, *lines = content.splitlines() or [b""]
    header = _read_line(_Header, first, 1, where)
    if header.kind != "plan":
        raise _unreadable(where, f"its kind is {header.kind!r:.50}; expected 'plan'")
    if header.version > _VERSION:
        raise errors.InvalidInputError(
            f"The plan {where!r} has version {header.version}; this webtraj reads up to "
            f"{_VERSION}. Install a newer webtraj."
        )
    plan = []
    for number, line in enumerate(lines, start=2):
        row = _read_line(_Row, line, number, where)
        try:
            spec = TaskSpec.from_data(row.task)
        except records.WrongFieldError as error:
            path = f"task.{error.path}" if error.path else "task"
            raise _unreadable(where, f"line {number}: {path} {error.why}") from error
        plan.append(
            PlannedEpisode(
                row=row.row,
                spec=spec,
                attempt=row.attempt,
                seed=row.seed,
                group=row.group,
                fork=row.fork,
                options=row.options or {},
            )
        )
    if [planned.row for planned in plan] != list(range(header.episodes)):
        raise _unreadable(
            where, f"expected the rows 0 to {header.episodes - 1}, got {len(plan)} rows"
        )
    return tuple(plan)


_REMEDY = "The file was changed or damaged after it was written; restore it from a copy."


def _read_line(cls: type[_Line], content: bytes, number: int, where: str) -> _Line:
    at = f"Line {number} of the plan {where!r}"
    return records.read_line(cls, content, at, _REMEDY, errors.InvalidInputError)


def _unreadable(where: str, why: str) -> errors.InvalidInputError:
    return errors.InvalidInputError(f"Cannot read the plan {where!r}: {why}. {_REMEDY}")


def _specs(selection: registry.SelectedPreset) -> list[TaskSpec]:
    if selection.tasks is None:
        return [TaskSpec(name=selection.name, preset=selection.name)]
    every = list(selection.preset.list_tasks() or ())
    # A selector for this task alone, by its index, since a task may be any object.
    return [
        TaskSpec(name=_task_name(task), preset=f"{selection.name}:{every.index(task)}")
        for task in selection.tasks
    ]


def _task_name(task: Any) -> str:
    """Return a task's name: the task itself if it is a string, its `name`, or its `repr`."""
    name = getattr(task, "name", task)
    return name if isinstance(name, str) else repr(task)
