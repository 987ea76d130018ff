"""Taking steps out of an episode so that what is left is an episode again."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from webtraj import trajectory as trajectory_lib

__all__ = ["is_neutral", "renumbered", "without"]


def is_neutral(step: trajectory_lib.StepRecord) -> bool:
    """Returns whether taking a step out changes neither reward nor return, nor begin nor end."""
    if step.first or step.last:
        return False
    if trajectory_lib.reward_value(step.reward) != 0:  # NaN is not 0 either.
        return False
    return step.discount is None or _is_one(step.discount)


def without(
    trajectory: trajectory_lib.EpisodeTrajectory, dropped: Collection[int]
) -> trajectory_lib.EpisodeTrajectory:
    """Returns an episode without the steps at some positions, numbered from 0 again."""
    gone = frozenset(dropped)
    kept = [step for position, step in enumerate(trajectory.steps) if position not in gone]
    return dataclasses.replace(trajectory, steps=renumbered(kept))


def renumbered(
    steps: Collection[trajectory_lib.StepRecord],
) -> tuple[trajectory_lib.StepRecord, ...]:
    """Returns steps numbered from 0, those that are already as they are."""
    return tuple(
        step if step.index == index else dataclasses.replace(step, index=index)
        for index, step in enumerate(steps)
    )


def _is_one(discount: Any) -> bool:
    try:
        return float(discount) == 1.0
    except (TypeError, ValueError):
        return False
