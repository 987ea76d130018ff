"""`describe`: asks a model to describe each step and to add missing thoughts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import pydantic

from webtraj import structured_output
from webtraj.agents.models.base import ModelClient
from webtraj.environments.actions.recorded import is_invalid
from webtraj.processing.base import Changed
from webtraj.processing.steps import asking, options
from webtraj.processing.steps.prompts import Prompt, load_prompt
from webtraj.trajectory import Decision, EpisodeTrajectory, StepRecord

__all__ = ["AFTERWARDS", "DESCRIPTION", "Describe"]

DESCRIPTION = "description"
"""Key in `Decision.metadata` of the model's description of the step."""
AFTERWARDS = "written_afterwards"
"""Key in `Decision.metadata` of the fields that a model wrote, and which model."""

_Sentence = Annotated[
    str, pydantic.StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)
]


class _Description(asking.ReplyForm):
    description: _Sentence
    thought: _Sentence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
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
    client: ModelClient | None = dataclasses.field(default=None, repr=False)
    """The model. It is not closed."""
    thoughts: bool = True
    """Whether to write missing thoughts."""
    pictures: bool = False
    """Whether to show the pictures before and after."""
    page_characters: int = 6000
    """The most characters of a page to show."""
    parallel: int = 4
    """The number of steps per episode to ask about at once."""
    attempts: int = 3
    """The number of attempts to get a usable reply."""
    timeout: float = 120.0
    """The time limit of one call, in seconds."""
    max_tokens: int = 1024
    """The maximum length of a reply, in tokens."""
    _prompt: Prompt = dataclasses.field(init=False, repr=False)
    _asker: asking.Asker[_Description] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        prompt = load_prompt("describe")
        object.__setattr__(self, "_prompt", prompt)
        object.__setattr__(self, "_asker", asking.asker_of(self, prompt, _Description))
        options.check_flags(self.name, thoughts=self.thoughts, pictures=self.pictures)
        options.check_number(self.name, "page_characters", self.page_characters, least=100)
        options.check_number(self.name, "parallel", self.parallel, least=1)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings, as plain data."""
        assert self.client is not None
        return {**options.settings_of(self), "model": self.client.name}

    async def __call__(self, trajectory: EpisodeTrajectory) -> EpisodeTrajectory | Changed:
        """Return the episode with its descriptions.

        Raises:
            ModelError: A description failed.
        """
        assert self.client is not None
        steps = trajectory.steps
        positions = [place for place, step in enumerate(steps) if _is_open(step)]
        if not positions:
            return trajectory
        goal = asking.goal_of(trajectory)
        jobs = [
            functools.partial(self._described, goal, steps[place - 1], steps[place])
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
            and (_thought(described[place]) != _thought(steps[place]))
        ]
        return Changed(
            (dataclasses.replace(trajectory, steps=described),),
            {"described": positions, "thoughts": thoughts},
            model=self.client.name,
            prompt_sha256=self._prompt.sha256,
        )

    async def _described(self, goal: str, before: StepRecord, step: StepRecord) -> StepRecord:
        assert self.client is not None
        shown = structured_output.quoted(
            {
                "task": ("task", goal or "It is not known."),
                "before": (
                    "page before",
                    asking.page_text(before.observation, self.page_characters),
                ),
                "action": ("action", "\n".join(asking.step_lines([before, step])[-1:])),
                "after": (
                    "changes",
                    asking.changes_text(before.observation, step.observation, self.page_characters),
                ),
            }
        )
        pictures = []
        if self.pictures:
            both = (asking.picture_of(one.observation) for one in (before, step))
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
                "model": self.client.name,
                "prompt_sha256": self._prompt.sha256,
            },
        }
        decision = dataclasses.replace(decision, thought=thought, metadata=metadata)
        return dataclasses.replace(step, decision=decision)


def _is_open(step: StepRecord) -> bool:
    if step.first or is_invalid(step):
        return False
    return step.decision is None or DESCRIPTION not in step.decision.metadata


def _thought(step: StepRecord) -> str:
    return "" if step.decision is None else step.decision.thought
