"""Rendering: the prompts that a model agent would have been shown, for what an oracle decided.

The model agent itself is run over the recorded observations, with a client that replies what was
done. So a rendered prompt is the same, to the letter, as the one that the trained model will be
asked by, history included.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.agents import screens
from webtraj.agents.contexts import ContextSettings, page_of
from webtraj.agents.model import ModelAgent
from webtraj.agents.models.base import Message, Sampling
from webtraj.agents.prompts import Prompt, load_prompt
from webtraj.closing import AsyncClosing
from webtraj.environments.actions.base import Action
from webtraj.environments.actions.dialects import Dialect
from webtraj.environments.actions.verbs import InvalidAction
from webtraj.training.replay.cutting import Rendered, action_of, loaded
from webtraj.trajectory import Decision, EpisodeTrajectory, ModelCall

__all__ = ["AgentRenderer"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentRenderer:
    """Renders what `webtraj.agents.model.ModelAgent` would ask, set as it is here.

    A step whose action the dialect cannot say, or whose observation lacks what the context shows,
    is not rendered, and neither are those after it: their history would lack that step.
    """

    dialect: str = "webtraj"
    """How the model is to say actions; `webtraj.environments.actions.dialects` lists them."""
    prompt: str = "plain"
    """What it is told: what `webtraj.agents.prompts.load_prompt` takes."""
    context: ContextSettings = dataclasses.field(default_factory=ContextSettings)
    """What it is shown."""
    viewport: tuple[int, int] | None = None
    """Width and height of the page in CSS pixels, for dialects with coordinates; None takes what
    the observation says."""

    def __post_init__(self) -> None:
        if self.context.mode == "marks":
            raise errors.InvalidInputError(
                "Marks cannot be rendered: recorded actions name elements by their refs. Choose "
                "the mode 'text' or 'coordinates'."
            )
        load_prompt(self.prompt)  # So that a wrong name is told at once.

    @property
    def reference(self) -> Mapping[str, Any]:
        """See `Renderer.reference`."""
        return {
            "dialect": self.dialect,
            "prompt": dict(load_prompt(self.prompt).reference),
            "context": dataclasses.asdict(self.context),
            "viewport": None if self.viewport is None else list(self.viewport),
        }

    def render(self, trajectory: EpisodeTrajectory) -> Mapping[int, Rendered]:
        """See `Renderer.render`."""
        found: dict[int, Rendered] = {}
        try:
            replay = _Replay(self, trajectory)
            for step in range(1, len(trajectory.steps)):
                rendered = replay.render(step)
                if rendered is None:
                    break
                found[step] = rendered
        except (errors.AgentError, errors.UnsupportedActionError):
            pass
        return found


class _Replay:
    """An agent that goes through one recorded episode."""

    def __init__(self, settings: AgentRenderer, trajectory: EpisodeTrajectory) -> None:
        self._trajectory = trajectory
        self._prompt = load_prompt(settings.prompt)
        first = _shown(trajectory.steps[0].observation) if trajectory.steps else {}
        page = page_of(first, settings.context)
        viewport = settings.viewport or screens.viewport_of(first)
        self._dialect = screens.dialect_for(settings.dialect, viewport, page.image)
        self._client = _Teacher()
        agent = ModelAgent(
            client=self._client,
            dialect=self._dialect,
            prompt=self._prompt,
            context=settings.context,
        )
        self._actor = agent.begin_episode(_Described(trajectory))  # type: ignore[arg-type]

    def render(self, step: int) -> Rendered | None:
        """Return what the agent asks and is replied at a step; None if that cannot be said.

        Raises:
            AgentError: The observation lacks what the context shows.
            UnsupportedActionError: The dialect has no words for the action.
        """
        action = action_of(self._trajectory, step)
        if not isinstance(action, Action) or isinstance(action, InvalidAction):
            return None
        self._client.reply = _reply(
            action, self._trajectory.steps[step].decision, self._dialect, self._prompt
        )
        before = _shown(self._trajectory.steps[step - 1].observation)
        deciding = self._actor.act(before)
        try:
            deciding.send(None)  # Nothing in there waits: the client replies at once.
        except StopIteration as done:
            decision: Decision = done.value
            if decision.parse_error:
                return None
            return Rendered(self._client.messages, self._client.reply)
        raise AssertionError("unreachable: an agent whose client does not wait does not either")


class _Teacher(AsyncClosing):
    """A client that replies what it was told to, and remembers what it was asked."""

    name = "teacher"

    def __init__(self) -> None:
        self.reply = ""
        self.messages: tuple[Message, ...] = ()

    async def complete(
        self,
        messages: Sequence[Message],
        sampling: Sampling | None = None,
        *,
        timeout: float | None = None,
    ) -> ModelCall:
        """Return the reply."""
        del sampling, timeout
        self.messages = tuple(messages)
        return ModelCall(text=self.reply)

    async def aclose(self) -> None:
        """Does nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Described:
    """What an agent may ask of an environment, answered from the record."""

    trajectory: EpisodeTrajectory

    def describe_episode(self) -> Mapping[str, Any]:
        """Return task, seed and goal."""
        info = self.trajectory.info
        return {"task": info.task, "seed": info.seed, "goal": loaded(info.goal)}


def _reply(action: Action, decision: Decision | None, dialect: Dialect, prompt: Prompt) -> str:
    """Return the reply that says an action, in the sections that the prompt asks for."""
    said = dialect.format(action)
    if not isinstance(said, str):
        raise errors.UnsupportedActionError(
            f"The dialect {dialect.name!r} says actions by tool calls, which are no text to learn; "
            "choose another for rendering."
        )
    if not prompt.sections:
        return said
    known = {
        "thought": loaded(decision.thought) if decision is not None else "",
        "memory": loaded(decision.memory) if decision is not None else "",
    }
    *before, last = prompt.sections
    lines = [f"{name}: {known[name.lower()]}" for name in before if known.get(name.lower())]
    return "\n".join([*lines, f"{last}: {said}"])


def _shown(observation: Any) -> Any:
    if isinstance(observation, Mapping):
        return {name: loaded(value) for name, value in observation.items()}
    return observation
