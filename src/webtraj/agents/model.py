"""The model agent: it shows a model the page, and parses the model's reply.

Failures are data:

1. A reply that cannot be parsed becomes an `InvalidAction`: the environment leaves the page alone,
   and the next prompt tells the model why. `max_invalid_actions` in a row raise
   `EpisodeGivenUpError`, which truncates the episode.
2. A context that is too long for the model is cut further, as often as the settings allow; then the
   episode is truncated.
3. Any other `ModelError` is raised unchanged: an agent error, not a reward.
4. A reply is invalid if its first tool call is. Only the first call is played; the next prompt
   tells the model so.

Every model call is recorded, failed ones too: in the decision, or in the error's `decision`.
"""

from __future__ import annotations

import dataclasses

from webtraj import errors
from webtraj.agents import contexts as contexts_lib
from webtraj.agents import prompts as prompts_lib
from webtraj.agents import structures
from webtraj.agents.model_actor import ModelActor
from webtraj.agents.models.base import ModelClient, Sampling
from webtraj.environments import base as environment_lib
from webtraj.environments.actions import dialects as dialects_lib

__all__ = ["ModelAgent"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelAgent:
    """Asks a model for each action."""

    client: ModelClient
    """The model, shared by all episodes."""
    dialect: str | dialects_lib.Dialect = "webtraj"
    """The dialect for actions, or the name of one, which is then made for the viewport."""
    context: contexts_lib.ContextSettings = dataclasses.field(
        default_factory=contexts_lib.ContextSettings
    )
    """Settings for what the model sees."""
    prompt: str | prompts_lib.Prompt = ""
    """The prompt, or an argument for `load_prompt`. Default: `plain`, or `tools` with tools."""
    tools: bool = False
    """Whether the model is offered the dialect's tools and acts by calling them, rather than in
    words. Its calls and their results are then part of the conversation."""
    acknowledge_safety_checks: bool = False
    """Whether to go on when OpenAI's computer tool asks a person to check a call. If not, the
    episode is truncated."""
    sampling: Sampling | None = None
    """Sampling settings; None uses the client's."""
    seed: int | None = None
    """If given, each call's sampling seed is derived from this one, the episode's task and seed,
    and the call's number. So an episode can be sampled again, alone or among others, while attempts
    at one task still differ."""
    enforce_actions: bool = False
    """Whether the server restricts the model's output to valid actions (`structures`)."""
    max_invalid_actions: int = 5
    """The number of consecutive invalid replies that ends the episode."""
    timeout: float | None = None
    """Seconds for one call, including retries; None uses the client's."""
    viewport: tuple[int, int] | None = None
    """Width and height of the page in CSS pixels, for dialects with coordinates. None uses the
    environment's (`viewport`) or the observation's (`scroll`)."""
    count_tokens: contexts_lib.CountTokens = contexts_lib.estimate_tokens
    """Counts a text's tokens, for the context budgets."""
    name: str = ""
    """The policy name in episodes. Default: `model/` and the client's name."""

    def __post_init__(self) -> None:
        if isinstance(self.dialect, str):
            dialects_lib.make_dialect(self.dialect)  # Fails early on an unknown name.
            if self.enforce_actions:
                structures.require(self.dialect)
        if self.tools and self.enforce_actions:
            raise errors.InvalidInputError(
                "enforce_actions restricts a reply's text, but with tools the model acts by "
                "calling them. Leave one of the two out."
            )
        if isinstance(self.prompt, str):
            name = self.prompt or ("tools" if self.tools else "plain")
            object.__setattr__(self, "prompt", prompts_lib.load_prompt(name))
        if isinstance(self.max_invalid_actions, bool) or self.max_invalid_actions < 1:
            raise errors.InvalidInputError(
                f"max_invalid_actions must be 1 or more; got {self.max_invalid_actions!r}."
            )
        if not self.name:
            object.__setattr__(self, "name", f"model/{self.client.name}")

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of a browser environment's observations that the agent needs."""
        return self.context.channels

    def begin_episode(self, environment: environment_lib.Environment) -> ModelActor:
        """Return an actor with its own history."""
        return ModelActor(self, environment)

    def set_share(self, share: float) -> None:
        """Use a share of the client's rate limits, as one of several machines.

        A client without `set_share` has no such limits and is left alone.
        """
        set_share = getattr(self.client, "set_share", None)
        if set_share is not None:
            set_share(share)

    async def aclose(self) -> None:
        """Close the client."""
        await self.client.aclose()
