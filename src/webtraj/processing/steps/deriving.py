"""Episodes made of others for what they did do: with a goal, a rule and real observations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser.observation import refs_in
from webtraj.judging.masked import is_redacted
from webtraj.processing.steps import looking
from webtraj.processing.steps.relabel import RELABELLED, derived_id, for_goal, of_any_goal
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeTrajectory, Outcome, StepType

__all__ = ["derived", "is_derived", "is_plain_click", "is_sayable", "named_once"]

_LONGEST_NAME = 80


def is_derived(trajectory: EpisodeTrajectory) -> bool:
    """Returns whether an episode was relabelled already."""
    return RELABELLED in trajectory.info.metadata


def is_sayable(text: str) -> bool:
    """Returns whether a text can stand in a goal and in a rule: braces are for words of the goal.

    What was left out of the record cannot: nobody knows what was there.

    >>> is_sayable("Submit"), is_sayable("{x}"), is_sayable(" "), is_sayable("<secret:name>")
    (True, False, False, False)
    """
    return (
        bool(text.strip())
        and len(text) <= _LONGEST_NAME
        and not set("{}\n") & set(text)
        and not is_redacted(text)
    )


def is_plain_click(step: trajectory_lib.StepRecord) -> bool:
    """Returns whether a step's action was one click with the left button, and no key held."""
    action = looking.action_of(step.action)
    return (
        isinstance(action, (actions_lib.Click, actions_lib.ClickAt))
        and (action.button, tuple(action.modifiers), action.count) == ("left", (), 1)
        and isinstance(step.observation, Mapping)
    )


def named_once(
    before: trajectory_lib.StepRecord, step: trajectory_lib.StepRecord
) -> tuple[str, str] | None:
    """Returns role and name of what a step acted on, if they tell it from all else on its page."""
    last = looking.channel(step.observation, "last_action")
    if not isinstance(last, Mapping) or last.get("error"):
        return None
    role, name = str(last.get("role") or ""), str(last.get("name") or "")
    if not role or not is_sayable(name):
        return None
    tree = looking.text_channel(before.observation, "axtree")
    same = [element for element in refs_in(tree) if (element.role, element.name) == (role, name)]
    return (role, name) if len(same) == 1 else None


def derived(
    trajectory: EpisodeTrajectory,
    positions: Sequence[int],
    *,
    suffix: str,
    task: str,
    goal: str,
    rule: Mapping[str, Any],
) -> EpisodeTrajectory:
    """Makes an episode of some steps of another, in their order.

    Each action stands after the very page that it was taken on. Decisions, which were for another
    goal, are not taken along, nor what an observation tells of the old task.

    Args:
        trajectory: The episode.
        positions: Which of its steps; none is the first.
        suffix: Ends the new one's id.
        task: The new one's task.
        goal: Its goal.
        rule: What `webtraj.judging.rules` takes: when it is a success.
    """
    steps = trajectory.steps
    made = [
        dataclasses.replace(
            steps[positions[0] - 1],
            index=0,
            step_type=StepType.FIRST,
            observation=_page_of(steps[positions[0] - 1].observation),
            action=None,
            reward=None,
            discount=None,
            decision=None,
        )
    ]
    for index, position in enumerate(positions, 1):
        is_last = index == len(positions)
        observation: Any = steps[position].observation
        if not is_last:
            # What was seen next in the new episode is what the next action was taken on.
            seen = steps[positions[index] - 1].observation
            happened = {n: v for n, v in observation.items() if n not in looking.OF_THE_PAGE}
            observation = {**happened, **_page_of(seen)}
            if positions[index] - 1 != position:
                observation.pop("changes", None)
        made.append(
            dataclasses.replace(
                steps[position],
                index=index,
                step_type=StepType.LAST if is_last else StepType.MID,
                observation=observation,
                discount=0.0 if is_last else 1.0,
                decision=None,
            )
        )
    info = dataclasses.replace(
        trajectory.info,
        episode_id=derived_id(trajectory.episode_id, suffix),
        task=task,
        goal=goal,
        group_id="",
        metadata={
            **of_any_goal(trajectory.info.metadata),
            "task": {"name": task, "goal": goal, "metadata": {"rule": rule}},
            RELABELLED: {
                "episode_id": trajectory.episode_id,
                "step": steps[positions[-1]].index,
                "steps": [steps[position].index for position in positions],
                "task": trajectory.info.task,
                "goal": trajectory.info.goal,
                "outcome": trajectory.outcome.name.lower(),
            },
        },
    )
    return EpisodeTrajectory(
        info=info,
        steps=tuple(for_goal(step, goal) for step in made),
        end=EpisodeEnd(reason=EndReason.TERMINATED, outcome=Outcome.UNKNOWN),
        start_time=made[0].start_time,
        end_time=made[-1].end_time,
    )


def _page_of(observation: Any) -> dict[str, Any]:
    """Returns what shows the page, and nothing of what has happened."""
    return {
        name: value
        for name, value in observation.items()
        if name == "goal" or name in looking.OF_THE_PAGE
    }
