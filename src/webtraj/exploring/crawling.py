"""`explore`: a guided crawl from coarse tasks to concrete ones, in one call; and who does it.

One dataset holds both the episodes, recorded as in any rollout, and the tasks proposed from them.
Exploring is a run that can be resumed; proposing comes after it and only does what is missing. So
`resume` continues a crawl that was killed at any point.

`webtraj explore` is a rollout with a proposer (`webtraj.runs.spec.RunSpec`) instead, whose explorer
and proposer are made here, by name.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.agents import catalog as agents_catalog
from webtraj.agents import prompts as prompts_lib
from webtraj.agents.options import ModelOptions, read_options
from webtraj.environments.tasks import TaskSpec
from webtraj.exploring.checking import Proposer
from webtraj.exploring.proposing import Proposed, Record, propose
from webtraj.exploring.seen import channels_with
from webtraj.rollouts.collecting import collect
from webtraj.rollouts.recording import EpisodeFormat
from webtraj.rollouts.results import RolloutObserver, RolloutSummary
from webtraj.rollouts.settings import RolloutSettings
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import run_of
from webtraj.settings.named import nearest
from webtraj.store.closing import aclose
from webtraj.store.places import open_storage

if TYPE_CHECKING:
    from webtraj.agents.model import ModelAgent
    from webtraj.environments.browser.pool import BrowserPool

__all__ = [
    "EXPLORER",
    "EXPLORERS",
    "PROPOSERS",
    "Exploration",
    "Proposing",
    "explore",
    "make_explorer",
    "make_proposer",
    "require_coarse",
]

_MAX_STEPS = 15
_MAX_REPETITIVE_ACTIONS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Exploration:
    """The result of a crawl."""

    run_id: str
    """The run's name."""
    summary: RolloutSummary
    """The ends of the exploring episodes, those of a resumed run included."""
    proposed: Proposed
    """The proposals for them."""


async def explore(
    tasks: Iterable[TaskSpec],
    agent: agents_lib.Agent,
    proposer: Proposer,
    *,
    out: str | os.PathLike[str],
    run_id: str | None = None,
    resume: bool | str = False,
    attempts: int = 1,
    proposals: int = 3,
    parallel: int = 1,
    seed: int = 0,
    max_steps: int = _MAX_STEPS,
    settings: RolloutSettings | None = None,
    storage_options: Mapping[str, Any] | None = None,
    environment_options: Mapping[str, Any] | None = None,
    browser_pool: BrowserPool | None = None,
    observer: RolloutObserver | None = None,
    format: EpisodeFormat | None = None,  # noqa: A002
    on_proposals: Callable[[Record], None] | None = None,
) -> Exploration:
    """Explore sites and propose tasks from what was seen there.

    Args:
        tasks: Coarse tasks: a site and a rough description of what to do there. Ignored on
            `resume`.
        agent: The explorer. It is not closed.
        proposer: The proposer. It is not closed.
        out: The dataset: a folder, or a bucket's URL.
        run_id: The run's name; by default a new one.
        resume: The id of a run in `out` to resume, or True for the latest.
        attempts: The number of attempts per task, each with another seed.
        proposals: The maximum number of tasks per episode.
        parallel: The number of episodes to run, and to propose for, at once.
        seed: The run's seed.
        max_steps: The maximum number of steps per episode; a task's own limit takes precedence.
        settings: Other rollout settings; by default an episode ends when its agent repeats an
            action more than three times in a row.
        storage_options: Options for a bucket, as `webtraj.store.open_storage` takes them.
        environment_options: Options for the presets' factories.
        browser_pool: A shared pool, which is not closed; by default a new one.
        observer: An observer of the exploring run.
        format: The format of episodes: "json", "pb" or "pb.zst"; by default the dataset's, or
            "json" for a new one.
        on_proposals: A callback for each episode's proposals.

    Raises:
        InvalidInputError: A task is not coarse, or another argument is wrong.
        Exception: As `webtraj.rollouts.collect` and `webtraj.exploring.propose` raise.
    """
    coarse = () if resume else require_coarse(tasks)
    run = run_of(open_storage(out, storage_options), run_id=run_id, resume=resume).run_id
    channels = channels_with(getattr(agent, "channels", ()))
    base = settings or RolloutSettings(max_repetitive_actions=_MAX_REPETITIVE_ACTIONS)
    summary = await collect(
        coarse,
        agent,
        attempts=attempts,
        parallel=parallel,
        seed=seed,
        out=out,
        storage_options=storage_options,
        run_id=None if resume else run,
        resume=run if resume else False,
        max_steps=max_steps,
        settings=base,
        environment_options={"observe": channels, **(environment_options or {})},
        browser_pool=browser_pool,
        observer=observer,
        format=format,
    )
    proposed = await propose(
        out,
        proposer,
        run=run,
        proposals=proposals,
        parallel=parallel,
        storage_options=storage_options,
        on_episode=on_proposals,
    )
    return Exploration(run, summary, proposed)


def require_coarse(tasks: Iterable[TaskSpec]) -> tuple[TaskSpec, ...]:
    """Return tasks that can be explored.

    Raises:
        InvalidInputError: There are no tasks, or one is not coarse.
    """
    coarse = tuple(tasks)
    if not coarse:
        raise errors.InvalidInputError("No tasks to explore; give at least one.")
    for task in coarse:
        if not task.coarse:
            raise errors.InvalidInputError(
                f"The task {task.name!r:.100} is not coarse. Exploring takes rows with a site's "
                "url and a description of what may be done there, or with coarse=true; "
                "`webtraj rollout` plays the others."
            )
    return coarse


# Explorers and proposers by name, as on the command line.

EXPLORERS = ("model", "curious", "random", "scripted")
PROPOSERS = ("model", "hindsight")

_PROPOSING = ("max_attempts", "page_tokens", "text_tokens", "prompt")
"""The proposer's own options; all others are the model's."""


def make_explorer(
    name: str, *, seed: int = 0, options: Mapping[str, Any] | None = None
) -> agents_lib.Agent:
    """Make an explorer by name.

    >>> make_explorer("curious", seed=3).seed
    3

    Args:
        name: One of `EXPLORERS`: `model` asks a model, with the prompt `explore` by default.
        seed: The seed, for explorers that choose at random.
        options: Other settings; for `model`, those of `webtraj.agents.options.ModelOptions`.

    Raises:
        InvalidInputError: The name is unknown, or it does not take the options.
    """
    options = dict(options or {})
    _check(name, EXPLORERS, "explorer")
    if name == "model":
        from webtraj.exploring.explorer import ExplorerAgent

        return ExplorerAgent.of(_model({"prompt": "explore", **options}, "explorer"))
    return agents_catalog.make_agent(name, seed=seed, options=options)


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
    _check(name, PROPOSERS, "proposer")
    if name == "hindsight":
        from webtraj.exploring.hindsight import HindsightProposer

        if options:
            raise errors.InvalidInputError(
                f"The proposer 'hindsight' takes no options; got {min(options)!r}."
            )
        return HindsightProposer()
    from webtraj.exploring.asking import ModelProposer

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


def _check(name: str, known: tuple[str, ...], what: str) -> None:
    if name not in known:
        raise errors.InvalidInputError(
            f"No {what} is named {name!r:.60}. {nearest(name, known)}Choose one of: "
            f"{', '.join(known)}."
        )


EXPLORER = agents_catalog.AgentKind(
    "Asks a model to explore a site.",
    lambda seed, options: make_explorer("model", seed=seed, options=options),
    "those of the agent model",
    shared=tuple(ModelOptions.model_fields),
)
"""The agent `explorer`, an entry point."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proposing:
    """Recipe for a proposer, and how to ask it (`webtraj.rollouts.configuration.recipes`)."""

    name: str
    """A key of `PROPOSERS`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the proposer."""
    proposals: int = 3
    """Most tasks to propose for one episode."""
    parallel: int = 1
    """Episodes to ask about at a time."""

    def channels(self, channels: Iterable[str]) -> list[str]:
        """Return what to observe: those channels and what the proposer reads."""
        return channels_with(channels)

    def check(self, plan: Iterable[PlannedEpisode]) -> None:
        """Check that the tasks of a plan are coarse.

        Raises:
            InvalidInputError: One is not.
        """
        require_coarse(planned.spec for planned in plan)

    def make(self) -> Proposer:
        """Return a new proposer. If it has an `aclose`, the caller must call it.

        Raises:
            InvalidInputError: The proposer does not accept the options.
        """
        return make_proposer(self.name, options=self.options)

    async def propose(
        self, out: str, run_id: str | None, *, storage_options: Mapping[str, Any] | None
    ) -> Proposed:
        """Propose tasks for the episodes of a run, by default the latest, without proposals yet.

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
