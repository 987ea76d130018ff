"""`describe`: asks a model to describe each step and to add missing thoughts."""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, ClassVar

import pydantic

from webtraj.agents.models import structured_output
from webtraj.environments.actions.recorded import is_invalid
from webtraj.processing.base import Changed
from webtraj.processing.steps import asker, options
from webtraj.trajectory import Decision, EpisodeTrajectory, StepRecord

__all__ = ["AFTERWARDS", "DESCRIPTION", "Describe"]

DESCRIPTION = "description"
"""Key in `Decision.metadata` of the model's description of the step."""
AFTERWARDS = "written_afterwards"
"""Key in `Decision.metadata` of the fields that a model wrote, and which model."""

_Sentence = Annotated[
    str, pydantic.StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)
]


class _Description(asker.ReplyForm):
    description: _Sentence
    thought: _Sentence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Describe(asker.AskingStep):
    """Writes `Decision.metadata["description"]` for each step, and missing thoughts.

    The model sees the task, the page before, the action and the changes. The agent's own thoughts
    are never touched. `metadata` names the model that wrote an added thought, so that training can
    leave it out. Steps that already have a description, and replies without a valid action, are
    skipped.

    An episode is written with all its descriptions or, if one fails, not at all.

    Raises:
        InvalidInputError: There is no model, or an option is out of range.
    """

    name: str = dataclasses.field(default="describe", init=False)
    version: str = dataclasses.field(default="1", init=False)
    needs_model: ClassVar[bool] = True
    thoughts: bool = True
    """Whether to write missing thoughts."""
    pictures: bool = False
    """Whether to show the pictures before and after."""
    page_characters: int = 6000
    """The most characters of a page to show."""
    parallel: int = 4
    """The number of steps per episode to ask about at once."""
    _asker: asker.Asker[_Description] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        options.put(self, _asker=asker.Asker(self, "describe", _Description))
        options.check_flags(self)
        options.check_number(self.name, "page_characters", self.page_characters, least=100)
        options.check_number(self.name, "parallel", self.parallel, least=1)

    async def __call__(self, trajectory: EpisodeTrajectory) -> EpisodeTrajectory | Changed:
        """Return the episode with its descriptions.

        Raises:
            ModelError: A description failed.
        """
        steps = trajectory.steps
        positions = [place for place, step in enumerate(steps) if _is_open(step)]
        if not positions:
            return trajectory
        goal = asker.goal_of(trajectory)
        jobs = [
            functools.partial(self._describe_step, goal, steps[place - 1], steps[place])
            for place in positions
        ]
        made = dict(
            zip(positions, await structured_output.all_of(jobs, self.parallel), strict=True)
        )
        described = tuple(made.get(place, step) for place, step in enumerate(steps))
        thoughts = [
            place
            for place in positions
            if described[place].decision is not None
            and (_read_thought(described[place]) != _read_thought(steps[place]))
        ]
        made_of = dataclasses.replace(trajectory, steps=described)
        return self._asker.make_changed(made_of, described=positions, thoughts=thoughts)

    async def _describe_step(self, goal: str, before: StepRecord, step: StepRecord) -> StepRecord:
        shown = structured_output.quote(
            {
                "task": ("task", goal or "It is not known."),
                "before": (
                    "page before",
                    asker.page_text(before.observation, self.page_characters),
                ),
                "action": ("action", "\n".join(asker.step_lines([before, step])[-1:])),
                "after": (
                    "changes",
                    asker.changes_text(before.observation, step.observation, self.page_characters),
                ),
            }
        )
        pictures = []
        if self.pictures:
            both = (asker.picture_of(one.observation) for one in (before, step))
            pictures = [picture for picture in both if picture]
        reply, _ = await self._asker.ask(shown, pictures)
        decision = step.decision or Decision(action=step.action)
        written = [DESCRIPTION]
        thought = decision.thought
        if self.thoughts and not thought.strip():
            thought = " ".join(reply.thought.split())
            written.append("thought")
        metadata = {
            **decision.metadata,
            DESCRIPTION: " ".join(reply.description.split()),
            AFTERWARDS: {
                "fields": written,
                "model": self._asker.model,
                "prompt_sha256": self._asker.prompt.sha256,
            },
        }
        decision = dataclasses.replace(decision, thought=thought, metadata=metadata)
        return dataclasses.replace(step, decision=decision)


def _is_open(step: StepRecord) -> bool:
    if step.first or is_invalid(step):
        return False
    return step.decision is None or DESCRIPTION not in step.decision.metadata


def _read_thought(step: StepRecord) -> str:
    return "" if step.decision is None else step.decision.thought
