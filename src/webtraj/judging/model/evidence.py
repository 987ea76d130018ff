"""Evidence: what of an episode the judge is shown.

The task with its facts, the steps, the final answer, the screenshots; the text of pages where there
are no pictures of them. Nothing of it says what the environment gave for it: rewards and the
channel `info` are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents.contexts.cutting import cut_lines
from webtraj.agents.models.images import media_type
from webtraj.judging.answers import final_answer
from webtraj.judging.model.case import Case
from webtraj.judging.model.settings import JudgeSettings
from webtraj.judging.model.steps import step_list
from webtraj.trajectory import EpisodeTrajectory, StepRecord

if TYPE_CHECKING:
    from webtraj.rollouts.tasks.spec import TaskSpec

__all__ = ["Evidence", "gather", "halved"]

_LEAST_OF_A_PAGE = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What of an episode the judge is shown."""

    goal: str = ""
    """The task in words."""
    facts: tuple[str, ...] = ()
    """Each fact that has to hold, with what its group is about."""
    reference: str = ""
    """The right answer, where there is one."""
    answer: str = ""
    """The agent's final answer; empty if it gave none."""
    steps: str = ""
    """What was done, step by step."""
    pages: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """The text of pages by the index of their step, as far as it is shown."""
    pictures: Mapping[int, bytes] = dataclasses.field(default_factory=dict)
    """The encoded pictures by the index of their step, in order."""
    unreadable: tuple[int, ...] = ()
    """The steps whose picture is in none of the formats that models take."""
    missing: str = ""
    """What is missing so that it cannot be judged; empty if nothing is."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All text of it."""
        said = (self.goal, self.reference, self.answer, self.steps)
        return (*said, *self.facts, *self.pages.values())

    def case(self, settings: JudgeSettings) -> Case:
        """Returns what can be asked of it."""
        return Case(
            settings=settings,
            pictures=tuple(self.pictures),
            facts=self.facts,
            has_answer=bool(self.answer),
            has_reference=bool(self.reference),
        )


def gather(trajectory: EpisodeTrajectory, settings: JudgeSettings) -> Evidence:
    """Returns what of an episode the judge is shown."""
    try:
        goal, facts, reference = _task(trajectory)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        return Evidence(
            missing=f"The task in the episode's metadata cannot be read ({error!r}); it has to be "
            "data of a TaskSpec."
        )
    pictures, unreadable = _pictures(trajectory.steps)
    evidence = Evidence(
        goal=goal or trajectory.info.goal or _seen_goal(trajectory),
        facts=facts,
        reference=reference.strip(),
        answer=(final_answer(trajectory) or "").strip(),
        steps=step_list(trajectory, settings),
        pages=_pages(trajectory.steps, pictures, settings.page_characters),
        pictures=pictures,
        unreadable=unreadable,
    )
    return dataclasses.replace(evidence, missing=_missing(evidence))


def halved(
    evidence: Evidence, trajectory: EpisodeTrajectory, settings: JudgeSettings, times: int
) -> Evidence:
    """Returns evidence with half of the text of pages and half of the steps, so many times.

    Args:
        evidence: All of it.
        trajectory: What it was gathered from.
        settings: By which it was gathered.
        times: How often it is halved; 0 for not at all.
    """
    if times == 0:
        return evidence
    shown = min(settings.max_steps, len(trajectory.steps))
    budget = min(settings.page_characters, sum(map(len, evidence.pages.values())))
    less = dataclasses.replace(settings, max_steps=max(1, shown >> times))
    return dataclasses.replace(
        evidence,
        steps=step_list(trajectory, less),
        pages=_pages(trajectory.steps, evidence.pictures, budget >> times),
    )


def _missing(evidence: Evidence) -> str:
    if not evidence.goal.strip() and not evidence.facts:
        return "The episode has no goal and its task no facts: there is nothing to judge it by."
    if not evidence.pictures and not evidence.pages and not evidence.answer:
        return (
            "The episode has no picture, no text of a page and no answer: there is nothing to "
            "judge. Record it with the channel 'screenshot', 'axtree' or 'text'."
        )
    return ""


def _task(trajectory: EpisodeTrajectory) -> tuple[str, tuple[str, ...], str]:
    """Returns the goal, facts and reference answer of the task on record; empty without one."""
    data = trajectory.info.metadata.get("task")
    if data is None:
        return "", (), ""
    from webtraj.rollouts.tasks.spec import TaskSpec

    spec = TaskSpec.from_data(data)
    told = (spec.goal, tuple(_facts(spec)), spec.reference_answer)
    if not all(isinstance(text, str) for text in (told[0], *told[1], told[2])):
        raise TypeError("goal, facts and reference_answer are texts")
    return told


def _facts(spec: TaskSpec) -> Iterator[str]:
    for group in spec.facts:
        about = ": ".join(filter(None, [group.id, group.description]))
        for fact in group.facts:
            yield f"Of the group {about}\n{fact.description}" if about else fact.description


def _seen_goal(trajectory: EpisodeTrajectory) -> str:
    goals = (_channel(step, "goal") for step in trajectory.steps)
    return next((goal for goal in goals if isinstance(goal, str) and goal), "")


def _channel(step: StepRecord, name: str) -> Any:
    return step.observation.get(name) if isinstance(step.observation, Mapping) else None


def _pictures(steps: Sequence[StepRecord]) -> tuple[dict[int, bytes], tuple[int, ...]]:
    pictures, unreadable = {}, []
    for step in steps:
        picture = _picture(step)
        if not picture:
            continue
        try:
            media_type(picture)
        except errors.InvalidInputError:
            unreadable.append(step.index)
        else:
            pictures[step.index] = picture
    return pictures, tuple(unreadable)


def _picture(step: StepRecord) -> bytes:
    marked = _channel(step, "set_of_marks")
    marked = marked.get("image") if isinstance(marked, Mapping) else None
    found = (_channel(step, "screenshot"), marked)
    return next((bytes(data) for data in found if isinstance(data, bytes) and data), b"")


def _pages(
    steps: Sequence[StepRecord], pictures: Mapping[int, bytes], budget: int
) -> dict[int, str]:
    """Returns the text of pages, the last one's first, as long as the budget lasts."""
    if not steps or steps[-1].index in pictures:
        return {}
    shown: dict[int, str] = {}
    following = ""
    for step in reversed(steps):
        text = _page_text(step)
        if text and text != following:
            if budget < _LEAST_OF_A_PAGE and shown:
                break
            shown[step.index], _ = cut_lines(text, budget, len)
            budget -= len(shown[step.index])
            following = text
        if pictures and shown:
            break  # The pictures tell the rest.
    return dict(sorted(shown.items()))


def _page_text(step: StepRecord) -> str:
    texts = (_channel(step, name) for name in ("axtree", "text"))
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")
