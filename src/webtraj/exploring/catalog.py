"""The agent `explorer`, and the proposers, by name: for the command line and `RunSpec`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.agents import catalog as agents_catalog
from webtraj.agents import prompts as prompts_lib
from webtraj.agents.options import ModelOptions, read_options
from webtraj.exploring.drafts import Proposer
from webtraj.exploring.proposals import Proposed, propose
from webtraj.exploring.seen import channels_with
from webtraj.runs.plan import PlannedEpisode
from webtraj.settings.named import nearest
from webtraj.store.closeable import aclose

if TYPE_CHECKING:
    from webtraj.agents.model import ModelAgent

__all__ = ["EXPLORER", "PROPOSERS", "Proposing", "make_proposer"]


PROPOSERS = ("model", "hindsight")

_PROPOSING = ("max_attempts", "page_tokens", "text_tokens", "prompt")
"""The proposer's own options; all others are the model's."""


def make_proposer(name: str, *, options: Mapping[str, Any] | None = None) -> Proposer:
    """Make a proposer by name. The caller closes a proposer that has `aclose`.

    >>> make_proposer("hindsight").model
    ''

    Args:
        name: One of `PROPOSERS`.
        options: For `model`: `model`, `base_url` and the like, as an agent takes them; and
            `max_attempts`, `page_tokens`, `text_tokens`, and `prompt`, a file.

    Raises:
        InvalidInputError: The name is unknown, or it does not take the options.
    """
    options = dict(options or {})
    if name not in PROPOSERS:
        raise errors.InvalidInputError(
            f"No proposer is named {name!r:.60}. {nearest(name, PROPOSERS)}Choose one of: "
            f"{', '.join(PROPOSERS)}."
        )
    if name == "hindsight":
        from webtraj.exploring.hindsight import HindsightProposer

        if options:
            raise errors.InvalidInputError(
                f"The proposer 'hindsight' takes no options; got {min(options)!r}."
            )
        return HindsightProposer()
    from webtraj.exploring.model_proposer import ModelProposer

    own = {name: options.pop(name) for name in _PROPOSING if name in options}
    if "prompt" in own:
        if not str(own["prompt"]).endswith(".txt"):
            raise errors.InvalidInputError(
                f"The prompt is {own['prompt']!r:.100}; expected the path of a .txt file."
            )
        own["prompt"] = prompts_lib.load_prompt(str(own["prompt"]))
    agent = _model({"temperature": 0.0, **options}, "proposer")
    assert agent.sampling is not None
    return ModelProposer(client=agent.client, sampling=agent.sampling, timeout=agent.timeout, **own)


def _model(options: Mapping[str, Any], what: str) -> ModelAgent:
    return read_options(options, who=f"the {what} 'model'").make()


def _explorer(seed: int, options: Mapping[str, Any]) -> agents_lib.Agent:
    from webtraj.exploring.explorer import ExplorerAgent

    return ExplorerAgent.of(_model({"prompt": "explore", **options}, "explorer"))


EXPLORER = agents_catalog.AgentKind(
    "Asks a model to explore a site.",
    _explorer,
    "those of the agent model",
    shared=tuple(ModelOptions.model_fields),
)
"""The agent `explorer`, an entry point."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proposing:
    """Recipe for a proposer; see `webtraj.rollouts.recipes.Proposing`."""

    name: str
    """One of `PROPOSERS`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the proposer."""
    proposals: int = 3
    """Most tasks to propose for one episode."""
    parallel: int = 1
    """Episodes to ask about at a time."""

    def channels(self, channels: Iterable[str]) -> list[str]:
        """Return the channels to observe: the given ones, and those that the proposer reads."""
        return channels_with(channels)

    def check(self, plan: Iterable[PlannedEpisode]) -> None:
        """Check that the tasks of a plan are coarse.

        Raises:
            InvalidInputError: There are no tasks, or one is not coarse.
        """
        tasks = [planned.spec for planned in plan]
        if not tasks:
            raise errors.InvalidInputError("No tasks to explore; give at least one.")
        for task in tasks:
            if not task.coarse:
                raise errors.InvalidInputError(
                    f"The task {task.name!r:.100} is not coarse. Exploring takes rows with a "
                    "site's url and a description of what may be done there, or with coarse=true; "
                    "play the others without a proposer."
                )

    def make(self) -> Proposer:
        """Return a new proposer. If it has an `aclose`, the caller must call it.

        Raises:
            InvalidInputError: The proposer does not accept the options.
        """
        return make_proposer(self.name, options=self.options)

    async def propose(
        self, out: str, run_id: str | None, *, storage_options: Mapping[str, Any] | None
    ) -> Proposed:
        """Propose tasks for a run's episodes that have no proposals yet. Default: the latest run.

        Raises:
            Exception: See `webtraj.exploring.propose`.
        """
        proposer = self.make()
        try:
            return await propose(
                out,
                proposer,
                run=run_id,
                proposals=self.proposals,
                parallel=self.parallel,
                storage_options=storage_options,
            )
        finally:
            await aclose(proposer)
