"""The model agent: it shows a model the page, and reads what the model replies.

What goes wrong is data:

1. A reply that cannot be read is an `InvalidAction`: it goes to the environment, which leaves the
   page alone, and the model is told why at the next step. So many in a row
   (`max_invalid_actions`) end the episode by `EpisodeGivenUpError`: it is truncated.
2. A context too long for the model is cut harder, as often as the settings allow; after that the
   episode is truncated.
3. Any other `ModelError` is raised as it is: the agent's error, not a reward.

Every model call is on record, failed ones too: in the decision, or in the error's `decision`.
"""

from __future__ import annotations

import dataclasses

from webtraj import errors
from webtraj.agents import contexts as contexts_lib
from webtraj.agents import prompts as prompts_lib
from webtraj.agents import structures
from webtraj.agents.acting import ModelActor
from webtraj.agents.models.base import ModelClient, Sampling
from webtraj.environments import base as environment_lib
from webtraj.environments.actions import dialects as dialects_lib

__all__ = ["ModelAgent"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelAgent:
    """Asks a model what to do."""

    client: ModelClient
    """The model. It is shared by all episodes."""
    dialect: str | dialects_lib.Dialect = "webtraj"
    """How the model says actions: a dialect, or the name of one, which is then made for the
    viewport."""
    context: contexts_lib.ContextSettings = dataclasses.field(
        default_factory=contexts_lib.ContextSettings
    )
    """What the model is shown."""
    prompt: str | prompts_lib.Prompt = "plain"
    """What it is told: a prompt, or what `load_prompt` takes."""
    sampling: Sampling | None = None
    """How replies are sampled; None leaves it to the client."""
    seed: int | None = None
    """If given, each call is sampled with a seed that follows from this one, the episode's task and
    seed, and the number of the call; so that an episode can be sampled again, alone or among
    others, and attempts at one task still differ."""
    enforce_actions: bool = False
    """Whether the server is to let the model write nothing but an action (`structures`)."""
    max_invalid_actions: int = 5
    """How many invalid replies in a row end the episode."""
    timeout: float | None = None
    """Seconds that one call may take, retries included; None leaves it to the client."""
    viewport: tuple[int, int] | None = None
    """Width and height of the page in CSS pixels, for dialects with coordinates; None takes what
    the environment (`viewport`) or the observation (`scroll`) says."""
    count_tokens: contexts_lib.CountTokens = contexts_lib.estimate_tokens
    """Counts the tokens of a text, for the context's budgets."""
    name: str = ""
    """What episodes call their policy; by default `model/` and the client's name."""

    def __post_init__(self) -> None:
        if isinstance(self.dialect, str):
            dialects_lib.make_dialect(self.dialect)  # So that a wrong name is told at once.
            if self.enforce_actions:
                structures.require(self.dialect)
        if isinstance(self.prompt, str):
            object.__setattr__(self, "prompt", prompts_lib.load_prompt(self.prompt))
        if isinstance(self.max_invalid_actions, bool) or self.max_invalid_actions < 1:
            raise errors.InvalidInputError(
                f"max_invalid_actions is 1 or more; got {self.max_invalid_actions!r}."
            )
        if not self.name:
            object.__setattr__(self, "name", f"model/{self.client.name}")

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of a browser environment's observations that the agent needs."""
        return self.context.channels

    def begin_episode(self, environment: environment_lib.Environment) -> ModelActor:
        """Returns an actor with a history of its own."""
        return ModelActor(self, environment)

    def set_share(self, share: float) -> None:
        """Goes on with a part of what the client may ask by the minute: one of several machines.

        A client that has no such limits, and no `set_share`, is left as it is.
        """
        set_share = getattr(self.client, "set_share", None)
        if set_share is not None:
            set_share(share)

    async def aclose(self) -> None:
        """Closes the client."""
        await self.client.aclose()
