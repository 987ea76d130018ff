"""The plan of a rollout: which episodes it plays, each with a seed of its own.

A plan follows from the presets, the number of episodes and the run's seed alone. An episode's seed
follows from the run's seed, the task's name and the number of the attempt; so it is the same
however many workers there are, whichever of them plays it, and whatever else is played.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

from webtraj import errors, registry

__all__ = ["PlannedEpisode", "episode_seed", "plan_episodes"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEpisode:
    """One episode to play."""

    selection: registry.SelectedPreset
    """The preset, with the one task to play."""
    task: str
    """The task's name."""
    attempt: int
    """How many episodes of this task the plan has before this one."""
    seed: int
    """What to seed the environment with, from 0 to 2**31 - 1."""


def plan_episodes(
    presets: str | Sequence[str], *, episodes: int | None = None, seed: int = 0
) -> tuple[PlannedEpisode, ...]:
    """Plans a rollout.

    Args:
        presets: One selector or several.
        episodes: How many to play in all, dealt out to the tasks in turn, so that their numbers
            differ by at most one; by default one for each task.
        seed: The run's seed.

    Returns:
        The episodes, those of one task next to each other, so that a worker seldom has to open
        another.

    Raises:
        InvalidInputError: There is no preset, or `episodes` is not positive.
        InvalidSelectorError: A selector is malformed, or its preset has no such tasks.
        UnknownPresetError: There is no preset of that name.
    """
    selectors = [presets] if isinstance(presets, str) else list(presets)
    if not selectors:
        raise errors.InvalidInputError("A rollout needs at least one preset; got none.")
    if episodes is not None and episodes < 1:
        raise errors.InvalidInputError(f"A rollout plays 1 episode or more; got {episodes}.")
    selections = [part for selector in selectors for part in registry.select(selector).split()]
    total = len(selections) if episodes is None else episodes
    each, rest = divmod(total, len(selections))
    return tuple(
        _plan_one(selection, attempt, seed)
        for position, selection in enumerate(selections)
        for attempt in range(each + (position < rest))
    )


def episode_seed(run_seed: int, task: str, attempt: int) -> int:
    """Returns the seed of one episode, from 0 to 2**31 - 1: what every seeded system takes.

    >>> episode_seed(0, "click-test", 0), episode_seed(0, "click-test", 1)
    (621520978, 2088891589)
    """
    digest = hashlib.blake2b(f"{run_seed}\0{task}\0{attempt}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def _plan_one(selection: registry.SelectedPreset, attempt: int, run_seed: int) -> PlannedEpisode:
    task = selection.name if selection.tasks is None else _task_name(selection.tasks[0])
    return PlannedEpisode(
        selection=selection,
        task=task,
        attempt=attempt,
        seed=episode_seed(run_seed, task, attempt),
    )


def _task_name(task: Any) -> str:
    """Returns what a preset's task is called: itself, or its `name`, or else how it is written."""
    name = getattr(task, "name", task)
    return name if isinstance(name, str) else repr(task)
