"""The pointing agent: a page in a few tokens goes to a model, two tokens come back."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Mapping
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.models.base import Message, ModelClient, Sampling
from webtraj.agents.pointing.pages import Item, items_of
from webtraj.agents.pointing.prompts import Prompt, make_prompt
from webtraj.environments import base as environment_lib
from webtraj.environments.actions import Action, Fill, InvalidAction

__all__ = ["PointingAgent", "done_as"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PointingAgent:
    """Asks a model which element to act on, and which of the goal's words to type.

    Needs the channels `goal` and `axtree` of a browser environment. A reply that is none is an
    `InvalidAction`; after `max_invalid_actions` of them in a row the episode is given up, which
    truncates it.
    """

    client: ModelClient
    """The model. It is shared by all episodes."""
    temperature: float = 0.0
    """Of the sampling: 0 plays what the model thinks best, 1 explores."""
    seed: int = 0
    """Of the names, and of the sampling where there is any, together with the episode's task, seed
    and step; so attempts of one task should come with seeds of their own."""
    max_tokens: int = 2
    """How many tokens a reply may have: two names, each a token of models made from scratch."""
    max_invalid_actions: int = 3
    """How many invalid replies in a row end the episode."""
    timeout: float | None = None
    """Seconds that one call may take, retries included; None leaves it to the client."""
    name: str = ""
    """What episodes call their policy; by default `pointing/` and the client's name."""

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise errors.InvalidInputError(
                f"The agent's temperature is 0 or more; got {self.temperature!r}."
            )
        if self.max_invalid_actions < 1:
            raise errors.InvalidInputError(
                f"max_invalid_actions is 1 or more; got {self.max_invalid_actions!r}."
            )
        if not self.name:
            object.__setattr__(self, "name", f"pointing/{self.client.name}")

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of a browser environment's observations that the agent needs."""
        return ("goal", "axtree", "last_action")

    def begin_episode(self, environment: environment_lib.Environment) -> _Actor:
        """Returns an actor that remembers what it has done."""
        describe = getattr(environment, "describe_episode", None)
        episode: Mapping[str, Any] = describe() if callable(describe) else {}
        # A text, which Random digests, gives nearby seeds nothing in common.
        source = f"{self.seed}/{episode.get('task', '')}/{episode.get('seed', '')}"
        return _Actor(self, random.Random(source))

    async def aclose(self) -> None:
        """Closes the client."""
        await self.client.aclose()


class _Actor:
    """Acts in one episode."""

    def __init__(self, agent: PointingAgent, source: random.Random) -> None:
        self._agent = agent
        self._random = source
        self._done: list[tuple[str, str]] = []
        self._invalid_in_a_row = 0

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        """Returns what the model decides on.

        Raises:
            EpisodeGivenUpError: Too many replies in a row were no actions.
            ModelError: The model gave no reply.
            AgentError: The observation has no goal or axtree.
        """
        prompt = self._prompt(observation)
        agent = self._agent
        sampling = Sampling(
            temperature=agent.temperature,
            max_tokens=agent.max_tokens,
            seed=self._random.getrandbits(31) if agent.temperature else None,
        )
        try:
            call = await agent.client.complete(
                (Message.of("user", prompt.text),), sampling, timeout=agent.timeout
            )
        except errors.ModelError as error:
            if error.call is not None:
                error.decision = _decision((error.call,), None)
            raise
        action = prompt.read(call.text)
        decision = _decision((call,), action)
        if isinstance(action, InvalidAction):
            self._invalid_in_a_row += 1
            if self._invalid_in_a_row >= agent.max_invalid_actions:
                given_up = errors.EpisodeGivenUpError(
                    f"{self._invalid_in_a_row} replies in a row were no valid actions; the last: "
                    f"{action.reason}"
                )
                given_up.decision = decision
                raise given_up
        else:
            self._invalid_in_a_row = 0
            if (done := done_as(action, prompt.elements.values())) is not None:
                self._done.append(done)
        return decision

    def _prompt(self, observation: Any) -> Prompt:
        if not isinstance(observation, Mapping) or not {"goal", "axtree"} <= observation.keys():
            raise errors.AgentError(
                "The pointing agent needs observations with the channels 'goal' and 'axtree'; got "
                f"{type(observation).__name__!r}."
            )
        items = items_of(observation["axtree"])
        return make_prompt(observation["goal"], items, self._done, names=self._random)


def done_as(action: Action, items: Iterable[Item]) -> tuple[str, str] | None:
    """Returns how later prompts tell of an action; None if it was on no element of the page."""
    ref = getattr(action, "ref", None)
    item = next((item for item in items if item.ref and item.ref == ref), None)
    if item is None:
        return None
    typed = f" typed {action.value}" if isinstance(action, Fill) else ""
    return item.ref, f"{item.words}{typed}"


def _decision(
    calls: tuple[trajectory_lib.ModelCall, ...], action: Action | None
) -> trajectory_lib.Decision:
    return trajectory_lib.Decision(
        action=action,
        parse_error=action.reason if isinstance(action, InvalidAction) else "",
        model_calls=calls,
        metadata={"dialect": "pointing"},
    )
