"""Settings of the command `webtraj explore`, and starting and resuming a crawl.

The settings of each run are stored next to its plan, in `runs/<run>/explore.json`, so `--resume`
does not need them again. Settings that are given again take precedence.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import pydantic

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.agents import catalog as agents_catalog
from webtraj.agents import prompts as prompts_lib
from webtraj.agents.model import ModelAgent
from webtraj.agents.options import read_options
from webtraj.exploring.checking import Proposer
from webtraj.exploring.crawling import Exploration, explore, require_coarse
from webtraj.exploring.proposing import Proposed, Record, propose
from webtraj.rollouts.configuration.running import keep_source
from webtraj.rollouts.making import check_environments
from webtraj.rollouts.recording import EpisodeFormat, settle_format
from webtraj.rollouts.results import RolloutObserver
from webtraj.runs.plan import plan_tasks
from webtraj.runs.run import Run, new_run_id
from webtraj.store.places import is_url, open_storage
from webtraj.tasks import TaskSpec, read_tasks

if TYPE_CHECKING:
    from webtraj.exploring.checking import Proposer

__all__ = [
    "EXPLORERS",
    "ExploreConfig",
    "PROPOSERS",
    "begin",
    "go_on",
    "keep",
    "make_explorer",
    "make_proposer",
    "play",
    "propose_again",
    "read_config",
]

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
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
        raise errors.InvalidInputError(
            f"No {what} is named {name!r:.60}. {hint}Choose one of: {', '.join(known)}."
        )


_SOURCE = "explore.json"
_FIXED = ("tasks", "attempts", "seed", "format")


class ExploreConfig(pydantic.BaseModel):
    """Settings of a crawl. All are plain data, and none is a secret."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    tasks: str = ""
    """The coarse tasks: a `.jsonl` or `.parquet` file, or its URL."""
    agent: str | None = None
    """The explorer; by default `model` if there is a model, else `curious`."""
    proposer: str | None = None
    """The proposer; by default `model` if there is a model, else `hindsight`."""
    model: str | None = None
    """The model's name on its server, for both."""
    base_url: str | list[str] | None = None
    """The server's base URL."""
    api_key_variable: str | None = None
    """The environment variable with the server's API key."""
    agent_options: dict[str, Any] = {}
    """More options of the explorer; they override the three above."""
    proposer_options: dict[str, Any] = {}
    """The same for the proposer."""
    proposals: Annotated[int, pydantic.Field(ge=1, le=100)] = 3
    attempts: Annotated[int, pydantic.Field(ge=1)] = 1
    parallel: Annotated[int, pydantic.Field(ge=1)] = 1
    max_steps: Annotated[int, pydantic.Field(ge=1)] = 15
    seed: int = 0
    format: EpisodeFormat | None = None
    """The format of episodes; by default the dataset's, or `json` for a new one."""
    environment_options: dict[str, Any] = {}

    def make_agent(self) -> Any:
        """Return the explorer."""
        name = self.agent or ("model" if self.model else "curious")
        options = {**(self._asked() if name == "model" else {}), **self.agent_options}
        return make_explorer(name, seed=self.seed, options=options)

    def make_proposer(self) -> Proposer:
        """Return the proposer."""
        name = self.proposer or ("model" if self.model else "hindsight")
        options = {**(self._asked() if name == "model" else {}), **self.proposer_options}
        return make_proposer(name, options=options)

    def _asked(self) -> dict[str, Any]:
        given = {
            "model": self.model,
            "base_url": self.base_url,
            "api_key_variable": self.api_key_variable,
        }
        return {name: value for name, value in given.items() if value is not None}


def read_config(values: Mapping[str, Any], where: str = "the command line") -> ExploreConfig:
    """Return the settings from `values`. `where` names their source in errors.

    Raises:
        InvalidInputError: A key is unknown or a value wrong; the message names it.
    """
    try:
        return ExploreConfig.model_validate(dict(values))
    except pydantic.ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])).replace('_', '-')}: {problem['msg']}"
            for problem in error.errors(include_url=False)
        )
        raise errors.InvalidInputError(
            f"The settings of the crawl, from {where}, are wrong: {problems}."
        ) from None


def begin(
    values: Mapping[str, Any],
    *,
    out: str,
    storage_options: Mapping[str, Any] | None,
    tasks_options: Mapping[str, Any] | None = None,
) -> tuple[ExploreConfig, str, tuple[TaskSpec, ...]]:
    """Begin a crawl. Nothing is written yet.

    Returns:
        The settings, the run's name, and the tasks to explore.

    Raises:
        InvalidInputError: A setting is wrong, or the dataset has another format.
    """
    config, run_id = read_config(values), new_run_id()
    tasks = require_coarse(read_tasks(config.tasks, storage_options=tasks_options))
    settle_format(config.format, out, storage_options)
    return config, run_id, tasks


def keep(
    config: ExploreConfig, run_id: str, *, out: str, storage_options: Mapping[str, Any] | None
) -> None:
    """Store a crawl's settings next to its plan, which is not written yet.

    Raises:
        InvalidInputError: The dataset has another format.
        StorageError: The dataset cannot be written.
    """
    content = orjson.dumps(config.model_dump(exclude_defaults=True)).decode()
    written = settle_format(config.format, out, storage_options)
    keep_source(out, storage_options, run_id, _SOURCE, content, written)


def go_on(
    values: Mapping[str, Any],
    *,
    out: str,
    run_id: str | None,
    storage_options: Mapping[str, Any] | None,
) -> tuple[ExploreConfig, str]:
    """Load a crawl to resume.

    Args:
        values: The settings to change.
        out: The dataset.
        run_id: The run; by default the latest.
        storage_options: Options for a bucket.

    Returns:
        The settings and the run's name.

    Raises:
        InvalidInputError: The run does not exist, was not started by this command, or a given
            setting cannot be changed.
    """
    if fixed := [name for name in _FIXED if name in values]:
        raise errors.InvalidInputError(
            f"Resuming uses the original plan, so {fixed[0]} cannot be changed. Start a new crawl "
            "instead."
        )
    storage = open_storage(out, storage_options)
    run = Run.last(storage) if run_id is None else Run(storage, run_id)
    begun = run.read_begun(_SOURCE)
    if begun is None:
        raise errors.InvalidInputError(
            f"The run {run.run_id!r} in {out!r} was not started by `webtraj explore`. Use `webtraj "
            "explore propose` to propose tasks for its episodes."
        )
    where = f"{out}/runs/{run.run_id}/{_SOURCE}"
    return read_config({**begun, **values}, where), run.run_id


async def play(
    config: ExploreConfig,
    run_id: str,
    tasks: Sequence[TaskSpec],
    *,
    out: str,
    resume: bool,
    storage_options: Mapping[str, Any] | None = None,
    observer: RolloutObserver | None = None,
    on_proposals: Callable[[Record], None] | None = None,
) -> Exploration:
    """Explore and propose, or finish an interrupted crawl.

    Raises:
        Exception: As `webtraj.exploring.explore` raises.
    """
    async with contextlib.AsyncExitStack() as stack:
        agent, proposer = config.make_agent(), config.make_proposer()
        for held in (agent, proposer):
            if (close := getattr(held, "aclose", None)) is not None:
                stack.push_async_callback(close)
        if not resume:  # A crawl that cannot run could not be resumed either.
            await check_environments(plan_tasks(tasks), config.environment_options)
            keep(config, run_id, out=out, storage_options=storage_options)
        return await explore(
            tasks,
            agent,
            proposer,
            out=out,
            run_id=None if resume else run_id,
            resume=run_id if resume else False,
            attempts=config.attempts,
            proposals=config.proposals,
            parallel=config.parallel,
            seed=config.seed,
            max_steps=config.max_steps,
            storage_options=storage_options,
            environment_options=config.environment_options,
            observer=observer,
            format=config.format,
            on_proposals=on_proposals,
        )


async def propose_again(
    config: ExploreConfig,
    place: str,
    *,
    run: str | None,
    storage_options: Mapping[str, Any] | None = None,
    on_proposals: Callable[[Record], None] | None = None,
) -> Proposed:
    """Propose tasks for an existing dataset.

    Raises:
        Exception: As `webtraj.exploring.propose` raises.
    """
    async with contextlib.AsyncExitStack() as stack:
        proposer = config.make_proposer()
        if (close := getattr(proposer, "aclose", None)) is not None:
            stack.push_async_callback(close)
        return await propose(
            place,
            proposer,
            run=run,
            proposals=config.proposals,
            parallel=config.parallel,
            storage_options=storage_options if is_url(place) else None,
            on_episode=on_proposals,
        )
