"""`relabel-clicks`: each click on something that has a name solves a task of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser.observation import refs_in
from webtraj.processing.base import Changed, Drop
from webtraj.processing.steps import looking, options
from webtraj.processing.steps.relabel import RELABELLED, derived_id, for_goal, of_any_goal
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    StepType,
)

__all__ = ["RelabelClicks"]

_TASK = "hindsight/click"
_LONGEST_NAME = 80


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RelabelClicks:
    """Makes an episode of one step of each click whose element one can ask for by role and name.

    No model is asked: that something was clicked is on record. Whatever the episode was worth, what
    it clicked on the way teaches to find things on pages. A click counts if it was done, and if
    no other element of the page had the same role and name.

    The new episode shows the page before, its goal is `wording`, and its outcome is UNKNOWN, as it
    is of all that was relabelled. It brings a rule that the judge `rules` checks: the last action
    was on an element of that role and name. The agent's decision, which was for another goal, is
    not taken along. `metadata["relabelled"]` says which step of which episode it was.
    """

    name: str = dataclasses.field(default="relabel-clicks", init=False)
    version: str = dataclasses.field(default="2", init=False)
    needs_model: ClassVar[bool] = False
    wording: str = 'Click on the {role} "{name}".'
    """The goal; `{role}` and `{name}` are filled in."""
    most: int = 20
    """The most episodes that are made of one; the first clicks count."""
    keep_original: bool = True
    """Whether the episode itself goes on, too."""

    def __post_init__(self) -> None:
        options.check_number(self.name, "most", self.most, least=1)
        options.check_flags(self.name, keep_original=self.keep_original)
        options.check_wording(self.name, "wording", self.wording, ("{role}", "{name}"))

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was told."""
        return options.settings_of(self)

    def __call__(self, trajectory: EpisodeTrajectory) -> EpisodeTrajectory | Changed | Drop:
        """Returns the episode and those that were made of its clicks."""
        made: list[EpisodeTrajectory] = []
        if RELABELLED not in trajectory.info.metadata and trajectory.end is not None:
            clicks = _clicks_in(trajectory)
            made = [
                self._relabelled(trajectory, before, step, *element)
                for (before, step, element), _ in zip(clicks, range(self.most), strict=False)
            ]
        if not made:
            return trajectory if self.keep_original else Drop("no click to ask for")
        clicked = [one.info.metadata[RELABELLED]["step"] for one in made]
        originals = (trajectory,) if self.keep_original else ()
        return Changed((*originals, *made), {"clicks": clicked})

    def _relabelled(
        self,
        trajectory: EpisodeTrajectory,
        before: StepRecord,
        step: StepRecord,
        role: str,
        name: str,
    ) -> EpisodeTrajectory:
        goal = self.wording.replace("{role}", role).replace("{name}", name)
        rule = {"success": {"last_action": {"role": role, "name": {"equals": name}}}}
        info = dataclasses.replace(
            trajectory.info,
            episode_id=derived_id(trajectory.episode_id, f".click{step.index}"),
            task=_TASK,
            goal=goal,
            group_id="",
            metadata={
                **of_any_goal(trajectory.info.metadata),
                "task": {"name": _TASK, "goal": goal, "metadata": {"rule": rule}},
                RELABELLED: {
                    "episode_id": trajectory.episode_id,
                    "step": step.index,
                    "task": trajectory.info.task,
                    "goal": trajectory.info.goal,
                    "outcome": trajectory.outcome.name.lower(),
                },
            },
        )
        seen = {
            key: value
            for key, value in before.observation.items()
            if key == "goal" or key in looking.OF_THE_PAGE
        }
        first = dataclasses.replace(
            before,
            index=0,
            step_type=StepType.FIRST,
            observation=seen,
            action=None,
            reward=None,
            discount=None,
            decision=None,
        )
        last = dataclasses.replace(
            step, index=1, step_type=StepType.LAST, discount=0.0, decision=None
        )
        return EpisodeTrajectory(
            info=info,
            steps=(for_goal(first, goal), for_goal(last, goal)),
            end=EpisodeEnd(reason=EndReason.TERMINATED, outcome=Outcome.UNKNOWN),
            start_time=before.start_time,
            end_time=step.end_time,
        )


def _clicks_in(
    trajectory: EpisodeTrajectory,
) -> Iterator[tuple[StepRecord, StepRecord, tuple[str, str]]]:
    """Yields the step before, the step, and role and name of what was clicked."""
    before: trajectory_lib.StepRecord | None = None
    for step in trajectory.steps:
        if before is not None and not step.first and _is_plain_click(step):
            element = _named_once(before, step)
            if element is not None:
                yield before, step, element
        before = step


def _is_plain_click(step: StepRecord) -> bool:
    action = looking.action_of(step.action)
    return (
        isinstance(action, (actions_lib.Click, actions_lib.ClickAt))
        and (action.button, tuple(action.modifiers), action.count) == ("left", (), 1)
        and isinstance(step.observation, Mapping)
    )


def _named_once(before: StepRecord, step: StepRecord) -> tuple[str, str] | None:
    last = looking.channel(step.observation, "last_action")
    if not isinstance(last, Mapping) or last.get("error"):
        return None
    role, name = str(last.get("role") or ""), str(last.get("name") or "")
    # Braces are for words of the goal, in rules.
    if not role or not name.strip() or len(name) > _LONGEST_NAME or set("{}\n") & set(name):
        return None
    tree = looking.text_channel(before.observation, "axtree")
    same = [element for element in refs_in(tree) if (element.role, element.name) == (role, name)]
    return (role, name) if len(same) == 1 else None
