"""Quick rollouts: presets and an agent from a command line, without a configuration file.

The arguments are kept beside the plan like any configuration, so that the run can be resumed with
only its folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from webtraj import configuration as configuration_lib
from webtraj import errors
from webtraj.rollouts.configuration.judges import Judging
from webtraj.rollouts.configuration.players import Player
from webtraj.rollouts.configuration.rollout import MetricsConfig
from webtraj.rollouts.configuration.running import ConfiguredRollout
from webtraj.rollouts.judging import When
from webtraj.rollouts.making import channels_for, environment_options
from webtraj.rollouts.recording import EpisodeFormat
from webtraj.rollouts.settings import RolloutSettings
from webtraj.runs.plan import PlannedEpisode, plan_episodes
from webtraj.runs.run import Run, new_run_id
from webtraj.store.places import is_url, open_storage

__all__ = ["SOURCE", "QuickConfig", "build_quick", "resume_quick"]

SOURCE = "command.json"
"""Name of the file beside the plan with the arguments that started a run."""


class QuickConfig(configuration_lib.Section):
    """A quick rollout."""

    preset: Annotated[list[str], Field(min_length=1)]
    """Presets to play."""
    agent: str = "oracle"
    """The agent's name in `webtraj.agents.catalog`."""
    agent_options: dict[str, Any] = Field(default_factory=dict)
    """Options of the agent."""
    episodes: Annotated[int, Field(ge=1)] | None = None
    """Number of episodes in all; by default one, or one group, for each task."""
    group_size: Annotated[int, Field(ge=1)] = 1
    """Number of episodes that share a task and a seed and differ only in the agent's sampling."""
    parallel: Annotated[int, Field(ge=1)] | Literal["auto"] | None = None
    """Episodes to play at a time; by default 1, or on a cluster as many as it can bear. `auto` for
    as many as this machine can bear."""
    seed: int = 0
    """The run's seed."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Step limit of an episode."""
    environment_options: dict[str, Any] = Field(default_factory=dict)
    """Further options of the presets."""
    format: EpisodeFormat | None = None
    """Format of the episodes: `json`, `pb` or `pb.zst`; the dataset's own by default."""
    judge: str | None = None
    """Judge of the recorded episodes: `environment`, `rules:FILE` or `model`."""
    judge_options: dict[str, Any] = Field(default_factory=dict)
    """Options of the judge: `model`, `base_url`, `votes`, ..."""
    judge_when: When = "unknown"
    """Episodes to judge."""
    metrics: MetricsConfig = MetricsConfig()
    """Destinations of live metrics."""


def build_quick(
    given: Mapping[str, Any], *, out: str, storage_options: Mapping[str, Any] | None = None
) -> ConfiguredRollout:
    """Return a rollout of presets.

    Args:
        given: Keys of `QuickConfig` that differ from the defaults.
        out: The dataset: a folder or bucket URL.
        storage_options: For a bucket.

    Raises:
        InvalidInputError: A value is invalid.
        UnknownPresetError: No preset has that name.
    """
    config = configuration_lib.validate(dict(given), QuickConfig, configuration_lib.COMMAND_LINE)
    plan = plan_episodes(
        config.preset, episodes=config.episodes, seed=config.seed, group_size=config.group_size
    )
    return _built(config, plan, out, storage_options, run_id=new_run_id(), resume=False)


def resume_quick(
    given: Mapping[str, Any],
    *,
    out: str,
    run_id: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ConfiguredRollout:
    """Return an earlier rollout, to be resumed.

    Args:
        given: Keys to change, such as `parallel`.
        out: The dataset of the rollout.
        run_id: The run; the latest by default.
        storage_options: For a bucket.

    Raises:
        InvalidInputError: The run does not exist or was not started by a command line, or a key
            cannot be changed.
    """
    storage = open_storage(out, storage_options)
    run = Run.last(storage) if run_id is None else Run(storage, run_id)
    plan = run.read_plan()
    where = f"{out}/runs/{run.run_id}/{SOURCE}"
    begun = run.read_begun(SOURCE)
    if begun is None:
        raise errors.InvalidInputError(
            f"The run {run.run_id!r} in {out!r} was not started by a command line alone, so its "
            "agent is unknown. Pass its configuration again, with --config-name and --resume, or "
            "resume it with webtraj.rollouts.collect(resume=...)."
        )
    if fixed := sorted({"preset", "episodes", "seed", "group_size"} & set(given)):
        raise errors.InvalidInputError(
            f"Resuming uses the original plan, so --{fixed[0].replace('_', '-')} cannot be "
            "changed. Start a new run instead."
        )
    values = configuration_lib.merged(begun, given)
    configuration_lib.check_complete(values, where)
    config = configuration_lib.validate(values, QuickConfig, where)
    return _built(config, plan, out, storage_options, run_id=run.run_id, resume=True)


def _built(
    config: QuickConfig,
    plan: tuple[PlannedEpisode, ...],
    out: str,
    storage_options: Mapping[str, Any] | None,
    *,
    run_id: str,
    resume: bool,
) -> ConfiguredRollout:
    player = Player(config.agent, config.agent_options, config.seed)
    return ConfiguredRollout(
        plan=plan,
        player=player,
        settings=RolloutSettings(parallel=config.parallel or 1, max_steps=config.max_steps),
        out=out,
        run_id=run_id,
        resume=resume,
        seed=config.seed,
        storage_options=storage_options if is_url(out) else None,
        environment_options=environment_options(
            plan, config.environment_options, channels_for(player.make())
        ),
        parallel=config.parallel if isinstance(config.parallel, int) else None,
        source=orjson.dumps(configuration_lib.without_secrets(config.model_dump())).decode(),
        source_name=SOURCE,
        format=config.format,
        metrics=config.metrics.targets(),
        judging=_judging(config),
    )


def _judging(config: QuickConfig) -> Judging | None:
    if config.judge is None:
        if config.judge_options or config.judge_when != "unknown":
            raise errors.InvalidInputError(
                "Judge options were given without a judge. Add --judge environment, rules:FILE or "
                "model."
            )
        return None
    return Judging(spec=config.judge, options=config.judge_options, when=config.judge_when)
