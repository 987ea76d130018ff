"""`relabel-clicks`: makes a task of each click on a named element."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser.observation import is_cut, refs_in
from webtraj.environments.browser.recorded_channels import last_action_of, text_of
from webtraj.judging.masked_fields import is_redacted
from webtraj.processing.base import Changed, Drop
from webtraj.processing.steps import observations, options
from webtraj.processing.steps.relabel import RELABELLED, derive_id, for_goal, of_any_goal
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeTrajectory, Outcome, StepType

__all__ = [
    "RelabelClicks",
    "derive",
    "is_derived",
    "is_plain_click",
    "is_sayable",
    "find_unique_name",
]

# Building relabelled episodes: a new goal and rule with real observations.

_LONGEST_NAME = 80


def is_derived(trajectory: EpisodeTrajectory) -> bool:
    """Return whether an episode was already relabelled."""
    return RELABELLED in trajectory.info.metadata


def is_sayable(text: str) -> bool:
    """Return whether a text can be used in a goal and a rule, where braces have a meaning.

    Redacted text cannot be used, because its content is unknown.

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
    """Return whether a step's action was a single left click without modifier keys."""
    action = observations.action_of(step.action)
    return (
        isinstance(action, (actions_lib.Click, actions_lib.ClickAt))
        and (action.button, tuple(action.modifiers), action.count) == ("left", (), 1)
        and isinstance(step.observation, Mapping)
    )


def find_unique_name(
    before: trajectory_lib.StepRecord, step: trajectory_lib.StepRecord
) -> tuple[str, str] | None:
    """Return the role and name of a step's target, if they are unique on its page."""
    last = last_action_of(step.observation)
    if last.get("error"):
        return None
    role, name = str(last.get("role") or ""), str(last.get("name") or "")
    if not role or not is_sayable(name):
        return None
    tree = text_of(before.observation, "axtree")
    if is_cut(tree):
        return None  # Another may be in what is missing.
    same = [element for element in refs_in(tree) if (element.role, element.name) == (role, name)]
    return (role, name) if len(same) == 1 else None


def derive(
    trajectory: EpisodeTrajectory,
    positions: Sequence[int],
    *,
    suffix: str,
    task: str,
    goal: str,
    rule: Mapping[str, Any],
) -> EpisodeTrajectory:
    """Make an episode from some steps of another, in order.

    Each action follows the page on which it was taken. Decisions are left out, because they were
    made for another goal. So is everything in observations about the old task.

    Args:
        trajectory: The episode.
        positions: The positions of the steps; the first step is not allowed.
        suffix: The end of the new id.
        task: The new task.
        goal: The new goal.
        rule: The rule for success, in the form of `webtraj.judging.rules`.
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
            # The next observation is the page on which the next action was taken.
            seen = steps[positions[index] - 1].observation
            happened = {n: v for n, v in observation.items() if n not in observations.OF_THE_PAGE}
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
        episode_id=derive_id(trajectory.episode_id, suffix),
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
    """Return the channels that show the page, without the channels for events."""
    return {
        name: value
        for name, value in observation.items()
        if name == "goal" or name in observations.OF_THE_PAGE
    }


_TASK = "hindsight/click"
_SEQUENCE = "hindsight/click-sequence"
_KIND = "hindsight/click-kind"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RelabelClicks(options.PlainStep):
    """Makes a one-step episode of each click on an element with a unique role and name.

    It needs no model: the clicks are on record. Whatever the episode's outcome, its clicks teach
    how to find elements on pages. A click counts if it succeeded and no other element on the page
    had the same role and name.

    With `sequences`, two such clicks in a row also make a two-step episode. With `kinds`, a click
    also makes an episode whose goal is any element of that role, if the page has other roles too.

    The new episode shows the page before the click, its goal is `wording`, and its outcome is
    UNKNOWN, as for all relabelled episodes. It carries a rule for the judge `rules`: the last
    action was on an element with that role and name. The agent's decision, which was for another
    goal, is left out. `metadata["relabelled"]` names the source episode and step.
    """

    name: str = dataclasses.field(default="relabel-clicks", init=False)
    version: str = dataclasses.field(default="3", init=False)
    wording: str = 'Click on the {role} "{name}".'
    """The goal; `{role}` and `{name}` are filled in."""
    sequences: bool = False
    """Whether two clicks in a row also make an episode."""
    sequence_wording: str = 'Click on the {role} "{name}", then on the {role2} "{name2}".'
    """Its goal; `{role2}` and `{name2}` are the second click's."""
    kinds: bool = False
    """Whether a click also makes an episode that asks for its element's role alone."""
    kind_wording: str = 'Click on a "{role}".'
    """Its goal."""
    most: int = 20
    """The most episodes to make from one, for each of single clicks, pairs and kinds. The first
    ones are made."""
    keep_original: bool = True
    """Whether to keep the original episode too."""

    def __post_init__(self) -> None:
        options.check_number(self.name, "most", self.most, least=1)
        options.check_flags(self)
        options.check_wording(self.name, "kind_wording", self.kind_wording, ("{role}",))
        options.check_wording(self.name, "wording", self.wording, ("{role}", "{name}"))
        options.check_wording(
            self.name,
            "sequence_wording",
            self.sequence_wording,
            ("{role}", "{name}", "{role2}", "{name2}"),
        )

    def __call__(self, trajectory: EpisodeTrajectory) -> EpisodeTrajectory | Changed | Drop:
        """Return the episode and those made from its clicks."""
        if is_derived(trajectory) or trajectory.end is None:
            return trajectory if self.keep_original else Drop("no click to ask for")
        steps = trajectory.steps
        clicks = dict(_clicks_in(trajectory))
        singles = [
            derive(
                trajectory,
                [position],
                suffix=f".click{steps[position].index}",
                task=_TASK,
                goal=options.fill_in(self.wording, {"role": element[0], "name": element[1]}),
                rule={"success": {"last_action": _make_predicate(element)}},
            )
            for position, element in itertools.islice(clicks.items(), self.most)
        ]
        in_a_row = [one for one in clicks if one + 1 in clicks] if self.sequences else []
        pairs = [
            self._of_two(trajectory, one, clicks[one], clicks[one + 1])
            for one in in_a_row[: self.most]
        ]
        of_a_kind = _kinds_in(trajectory) if self.kinds else ()
        kinds = [
            derive(
                trajectory,
                [position],
                suffix=f".kind{steps[position].index}",
                task=_KIND,
                goal=options.fill_in(self.kind_wording, {"role": role}),
                rule={"success": {"last_action": {"role": role}}},
            )
            for position, role in itertools.islice(of_a_kind, self.most)
        ]
        made = [*singles, *pairs, *kinds]
        if not made:
            return trajectory if self.keep_original else Drop("no click to ask for")
        changes: dict[str, Any] = {"clicks": [_source(one)["step"] for one in singles]}
        if pairs:
            changes["sequences"] = [_source(one)["steps"] for one in pairs]
        if kinds:
            changes["kinds"] = [_source(one)["step"] for one in kinds]
        originals = (trajectory,) if self.keep_original else ()
        return Changed((*originals, *made), changes)

    def _of_two(
        self,
        trajectory: EpisodeTrajectory,
        position: int,
        first: tuple[str, str],
        second: tuple[str, str],
    ) -> EpisodeTrajectory:
        words = {"role": first[0], "name": first[1], "role2": second[0], "name2": second[1]}
        in_order = [
            {"last_action": _make_predicate(second)},
            {"before": {"last_action": _make_predicate(first)}},
        ]
        return derive(
            trajectory,
            [position, position + 1],
            suffix=f".clicks{trajectory.steps[position].index}",
            task=_SEQUENCE,
            goal=options.fill_in(self.sequence_wording, words),
            rule={"success": {"all": in_order}},
        )


def _source(made: EpisodeTrajectory) -> Mapping[str, Any]:
    source: Mapping[str, Any] = made.info.metadata[RELABELLED]
    return source


def _make_predicate(element: tuple[str, str]) -> dict[str, Any]:
    return {"role": element[0], "name": {"equals": element[1]}}


def _clicks_in(trajectory: EpisodeTrajectory) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield the position of each click that counts, with its target's role and name."""
    for position, (before, step) in enumerate(itertools.pairwise(trajectory.steps), 1):
        if not step.first and is_plain_click(step):
            element = find_unique_name(before, step)
            if element is not None:
                yield position, element


def _kinds_in(trajectory: EpisodeTrajectory) -> Iterator[tuple[int, str]]:
    """Yield the position of each click on a page with several roles, with its target's role."""
    for position, (before, step) in enumerate(itertools.pairwise(trajectory.steps), 1):
        if step.first or not is_plain_click(step):
            continue
        last = last_action_of(step.observation)
        if last.get("error"):
            continue
        roles = {each.role for each in refs_in(text_of(before.observation, "axtree"))}
        if len(roles) > 1 and last.get("role") in roles:
            yield position, last["role"]
