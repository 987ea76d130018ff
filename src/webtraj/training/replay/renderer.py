"""Render the prompts that a model agent would have sent for an oracle's decisions.

The model agent itself runs over the recorded observations, with a client that replies with the
recorded actions. So a rendered prompt is identical to the one that the trained model will get,
history included.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

from webtraj import errors
from webtraj.agents import screens
from webtraj.agents.contexts import ContextSettings, page_of
from webtraj.agents.model import ModelAgent
from webtraj.agents.models.base import Message, Sampling
from webtraj.agents.options import read_options
from webtraj.agents.prompts import Prompt, load_prompt
from webtraj.environments.actions.base import Action
from webtraj.environments.actions.dialects import Dialect
from webtraj.environments.actions.verbs import InvalidAction
from webtraj.store.closeable import AsyncClosing
from webtraj.training.replay.cutter import Rendered, action_of, load_blob
from webtraj.trajectory import Decision, EpisodeTrajectory, ModelCall

__all__ = ["AgentRenderer"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentRenderer:
    """A renderer of the prompts of `webtraj.agents.model.ModelAgent` with the given settings.

    A step is not rendered if the dialect cannot express its action, or if its observation lacks
    what the context shows. Later steps are not rendered either, because their history would lack
    it.
    """

    dialect: str = "webtraj"
    """The action dialect: see `webtraj.environments.actions.dialects`."""
    prompt: str = "plain"
    """The prompt: see `webtraj.agents.prompts.load_prompt`."""
    context: ContextSettings = dataclasses.field(default_factory=ContextSettings)
    """Settings of the context."""
    viewport: tuple[int, int] | None = None
    """Width and height of the page in CSS pixels, for dialects with coordinates; None uses the
    observation's."""

    def __post_init__(self) -> None:
        if self.context.mode == "marks":
            raise errors.InvalidInputError(
                "Marks cannot be rendered: recorded actions name elements by refs. Use "
                "the mode 'text' or 'coordinates'."
            )
        load_prompt(self.prompt)  # Fail early on a wrong name.

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the renderer for a model agent with the given options.

        Args:
            options: The fields of `webtraj.agents.options.ModelOptions` that shape a prompt; others
                have no effect.

        Raises:
            InvalidInputError: An option is unknown, or its value is invalid; or the agent calls
                tools.
        """
        read = read_options({"model": "", **options})
        if read.tools:
            raise errors.InvalidInputError(
                "Prompts with tools cannot be rendered: the replies are text. Leave out the option "
                "tools."
            )
        return cls(
            dialect=read.dialect_or_usual,
            prompt=read.prompt_or_usual,
            context=read.make_context(),
            viewport=read.viewport,
        )

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
    """An agent that replays one recorded episode."""

    def __init__(self, settings: AgentRenderer, trajectory: EpisodeTrajectory) -> None:
        self._trajectory = trajectory
        self._prompt = load_prompt(settings.prompt)
        first = _load_blobs(trajectory.steps[0].observation) if trajectory.steps else {}
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
        """Return the agent's prompt and reply at a step; None if they cannot be expressed.

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
        before = _load_blobs(self._trajectory.steps[step - 1].observation)
        deciding = self._actor.act(before)
        try:
            deciding.send(None)  # Nothing waits: the client replies at once.
        except StopIteration as done:
            decision: Decision = done.value
            if decision.parse_error:
                return None
            return Rendered(self._client.messages, self._client.reply)
        raise AssertionError("unreachable: an agent whose client does not wait does not either")


class _Teacher(AsyncClosing):
    """A client that gives a prepared reply and keeps the request."""

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
        """Return the prepared reply."""
        del sampling, timeout
        self.messages = tuple(messages)
        return ModelCall(text=self.reply)

    async def aclose(self) -> None:
        """Do nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Described:
    """An environment's description, from the record."""

    trajectory: EpisodeTrajectory

    def describe_episode(self) -> Mapping[str, Any]:
        """Return the task, seed and goal."""
        info = self.trajectory.info
        return {"task": info.task, "seed": info.seed, "goal": load_blob(info.goal)}


def _reply(action: Action, decision: Decision | None, dialect: Dialect, prompt: Prompt) -> str:
    """Return the reply with an action, in the sections that the prompt asks for."""
    said = dialect.format(action)
    if not isinstance(said, str):
        raise errors.UnsupportedActionError(
            f"The dialect {dialect.name!r} writes actions as tool calls, which are not text to "
            "learn. Use another for rendering."
        )
    if not prompt.sections:
        return said
    known = {
        "thought": load_blob(decision.thought) if decision is not None else "",
        "memory": load_blob(decision.memory) if decision is not None else "",
    }
    *before, last = prompt.sections
    lines = [f"{name}: {known[name.lower()]}" for name in before if known.get(name.lower())]
    return "\n".join([*lines, f"{last}: {said}"])


def _load_blobs(observation: Any) -> Any:
    if isinstance(observation, Mapping):
        return {name: load_blob(value) for name, value in observation.items()}
    return observation
