"""`build_rollout`: build a playable rollout from a configuration."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import errors
from webtraj.configuration import (
    COMMAND_LINE,
    check_complete,
    merged,
    validate,
    without_secrets,
)
from webtraj.environments.browser.lease import OperationLimits
from webtraj.metrics.live import MetricsTargets, WandbTarget
from webtraj.rollouts.configuration import selection
from webtraj.rollouts.configuration.judges import judging_of, judging_of_run
from webtraj.rollouts.configuration.loading import Configuration
from webtraj.rollouts.configuration.players import (
    Player,
    Rank,
    player_of,
    proposing_of,
    rank_of,
)
from webtraj.rollouts.configuration.running import ConfiguredRollout
from webtraj.rollouts.deadlines import Deadlines
from webtraj.rollouts.making import Browsers, channels_for, environment_options
from webtraj.rollouts.sampling import Blocklist
from webtraj.rollouts.scheduling import Politeness, RetryPolicy
from webtraj.rollouts.settings import Completion, RolloutSettings
from webtraj.runs.iterations import Iterations
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import Run, new_run_id, run_ids, run_of
from webtraj.runs.spec import RECORD, MetricsConfig, RunSpec, read_record
from webtraj.store.places import is_url, open_storage

if TYPE_CHECKING:
    from webtraj.rollouts.configuration.rollout import EnvConfig, RolloutConfig

__all__ = ["build_rollout", "resume_run", "start_run"]

_LOGGER = logging.getLogger(__name__)

_MINUTE = 60.0
_HOUR = 3600.0
_PLANNED = {"kind", "preset", "episodes", "attempts", "seed", "group_size"}
"""Fields of `RunSpec` on which the plan depends."""


def build_rollout(
    configuration: Configuration | RolloutConfig | RunSpec, *, resume: bool | str = False
) -> ConfiguredRollout:
    """Build a rollout from a configuration: pick and plan the tasks, and claim an iteration.

    Nothing is played and no plan is written. Errors in task files, agent options and numbers show
    here, before anything starts.

    Args:
        configuration: A configuration from `load_configuration`, its values, or a `RunSpec`.
        resume: The id of a run to resume, or True for the latest. Its tasks are read from its plan
            instead of being picked again.

    Returns:
        The rollout.

    Raises:
        InvalidInputError: The configuration is inconsistent or names something that does not
            exist, or there is no run to resume.
        StorageError: A bucket cannot be read or written.
        UnknownPresetError: No preset has a given name.
    """
    values = configuration.values if isinstance(configuration, Configuration) else configuration
    build = _Run(values) if isinstance(values, RunSpec) else _Rollout(values)
    built = build.resumed(resume) if resume else build.new()
    if isinstance(configuration, Configuration):
        return dataclasses.replace(built, source=configuration.source)
    if isinstance(configuration, RunSpec):
        data, name = configuration.record(), RECORD
    else:
        # JSON is valid YAML, and can hold any text.
        data, name = configuration.model_dump(by_alias=True), "config.yaml"
    source = orjson.dumps(without_secrets(data), option=orjson.OPT_INDENT_2).decode()
    return dataclasses.replace(built, source=source, source_name=name)


def start_run(
    given: Mapping[str, Any], *, out: str, storage_options: Mapping[str, Any] | None = None
) -> ConfiguredRollout:
    """Build a rollout from the fields of a `RunSpec` that differ from the defaults.

    Raises:
        InvalidInputError: A value is invalid.
        UnknownPresetError: No preset has that name.
    """
    placed = {**given, "out": out, "storage_options": dict(storage_options or {})}
    return build_rollout(validate(placed, RunSpec, COMMAND_LINE))


def resume_run(
    given: Mapping[str, Any],
    *,
    out: str,
    run_id: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ConfiguredRollout:
    """Build the rest of a run from the record beside its plan.

    Args:
        given: Fields to change, such as `parallel`.
        out: The dataset of the run.
        run_id: The run; the latest by default.
        storage_options: For a bucket.

    Raises:
        InvalidInputError: The run does not exist or has no such record, or a field cannot be
            changed.
    """
    storage = open_storage(out, storage_options)
    run = Run.last(storage) if run_id is None else Run(storage, run_id)
    run.read_plan()
    begun, name = read_record(run)
    if begun is None:
        raise errors.InvalidInputError(
            f"The run {run.run_id!r} in {out!r} was not started by a command line alone, so its "
            "agent is unknown. Pass its configuration again, with --config-name and --resume, or "
            "resume it with webtraj.rollouts.collect(resume=...)."
        )
    if fixed := sorted(_PLANNED & set(given)):
        raise errors.InvalidInputError(
            f"Resuming uses the original plan, so --{fixed[0].replace('_', '-')} cannot be "
            "changed. Start a new run instead."
        )
    where = f"{out}/runs/{run.run_id}/{name}"
    values = merged(validate(begun, RunSpec, where).record(), given)
    check_complete(values, where)
    values |= {"out": out, "storage_options": dict(storage_options or {})}
    return build_rollout(validate(values, RunSpec, where), resume=run.run_id)


@dataclasses.dataclass
class _Rollout:
    """Builds a rollout."""

    config: RolloutConfig

    def __post_init__(self) -> None:
        self.env = self.config.env_config
        self.rank = rank_of(self.env)
        self.player = player_of(self.config, self.rank)
        self.settings = _settings(self.env, self.rank)
        self.judging = judging_of(
            self.config.judge,
            self.config.judge_when,
            self.config.openai_config,
            parallel=self.env.evaluation_workers,
        )
        self.blocklist = _blocklist(self.config)
        self.options = self._bucket_options(self.config.save_path)
        self.iterations = Iterations(self.config.save_path, self.env.split, self.options)

    def new(self) -> ConfiguredRollout:
        channels = channels_for(self.player.make())
        given = self.config.iteration
        if self.rank is not None and given is None:
            raise errors.InvalidInputError(
                "Ranks share an iteration; give every rank its number, such as iteration=1."
            )
        number = max(self.iterations.numbers(), default=0) + 1 if given is None else given
        plan = self._plan(number)
        if self.rank is not None:
            digest = selection.digest_of(self.config)
            plan = self.iterations.share_plan(number, digest, plan, seed=self.config.seed)
            plan = self.rank.rows(plan)
            if not plan:
                raise errors.InvalidInputError(
                    f"No task is left for rank {self.rank.number} of {len(self.rank.weights)}: the "
                    "plan has too few. Use fewer ranks."
                )
        claimed = self.rank is None and number not in self.iterations.numbers()
        taken = self.iterations.claim(given)
        if taken != number:  # Another rollout just claimed that number.
            number, plan = taken, self._plan(taken)
        suffix = "" if self.rank is None else self.rank.suffix
        return self._built(
            number, plan, new_run_id() + suffix, channels, resume=False, claimed=claimed
        )

    def resumed(self, resume: bool | str) -> ConfiguredRollout:
        channels = channels_for(self.player.make())
        numbers = self.iterations.numbers()
        if self.config.iteration is not None:
            numbers = (self.config.iteration,)
        suffix = "" if self.rank is None else self.rank.suffix
        for number in reversed(numbers):
            storage = open_storage(self.iterations.dataset(number), self.options)
            ids = [run_id for run_id in run_ids(storage) if run_id.endswith(suffix)]
            if isinstance(resume, str):
                ids = [run_id for run_id in ids if run_id == resume]
            if ids:
                if number != numbers[-1] and not isinstance(resume, str):
                    _LOGGER.warning(
                        "Iteration %d has no run; iteration %d is resumed.", numbers[-1], number
                    )
                plan = Run(storage, ids[-1]).read_plan()
                return self._built(number, plan, ids[-1], channels, resume=True)
        wanted = f"run {resume!r}" if isinstance(resume, str) else "run"
        raise errors.InvalidInputError(
            f"No {wanted} to resume in {self.iterations.place!r}. Start a new run without "
            "--resume, or give the save_path, split and iteration that it was started with."
        )

    def _plan(self, number: int) -> tuple[PlannedEpisode, ...]:
        return selection.plan_rollout(
            self.config, blocklist=self.blocklist, iterations=self.iterations, number=number
        )

    def _built(
        self,
        number: int,
        plan: tuple[PlannedEpisode, ...],
        run_id: str,
        channels: Sequence[str],
        *,
        resume: bool,
        claimed: bool = False,
    ) -> ConfiguredRollout:
        env = self.env
        return ConfiguredRollout(
            plan=plan,
            player=self.player,
            settings=self.settings,
            out=self.iterations.dataset(number),
            run_id=run_id,
            resume=resume,
            seed=self.config.seed,
            storage_options=self.options,
            environment_options=environment_options(
                plan,
                env.environment_options,
                env.observe if env.observe is not None else channels,
            ),
            parallel=env.server_size if isinstance(env.server_size, int) else None,
            browsers=Browsers(
                contexts=env.contexts_per_browser,
                endpoint=env.browser_endpoint,
                wait_timeout=env.wait_timeout,
                operation_timeout=env.operation_timeout,
            ),
            blocklist=self.blocklist,
            save_every_percent=env.save_every_percent,
            verbose=env.verbose,
            iteration=number,
            ranked=self.rank is not None,
            judging=self.judging,
            claimed=self.iterations if claimed else None,
            format=self.config.format,
            metrics=_targets(self.config.metrics),
        )

    def _bucket_options(self, place: str) -> Mapping[str, Any] | None:
        return (self.config.storage_options or None) if is_url(place) else None


@dataclasses.dataclass
class _Run:
    """Builds a rollout into one dataset."""

    spec: RunSpec

    def __post_init__(self) -> None:
        spec = self.spec
        if spec.out is None:
            raise errors.InvalidInputError("out is missing, the dataset to write; give a folder.")
        self.out = spec.out
        # `basic` is the name that Orby's collector has for it.
        agent = "model" if spec.agent == "basic" else spec.agent
        self.player = Player(agent, spec.agents_options, spec.seed)
        self.proposing = proposing_of(spec)
        self.judging = judging_of_run(spec)
        self.settings = RolloutSettings(
            parallel=spec.parallel or 1,
            max_steps=spec.max_steps,
            max_repetitive_actions=spec.max_repetitive_actions,
            deadlines=Deadlines(episode=spec.timeout),
            retry=RetryPolicy(max_retries=spec.max_retries),
        )
        self.options = (spec.storage_options or None) if is_url(self.out) else None

    def new(self) -> ConfiguredRollout:
        channels = self._channels()
        plan = selection.plan_run(self.spec)
        if self.proposing is not None:
            self.proposing.check(planned.spec for planned in plan)
        return self._built(plan, new_run_id(), channels, resume=False)

    def resumed(self, resume: bool | str) -> ConfiguredRollout:
        channels = self._channels()
        storage = open_storage(self.out, self.options)
        run = run_of(storage, resume=resume)
        return self._built(run.read_plan(), run.run_id, channels, resume=True)

    def _built(
        self,
        plan: tuple[PlannedEpisode, ...],
        run_id: str,
        channels: Sequence[str],
        *,
        resume: bool,
    ) -> ConfiguredRollout:
        spec = self.spec
        return ConfiguredRollout(
            plan=plan,
            player=self.player,
            settings=self.settings,
            out=self.out,
            run_id=run_id,
            resume=resume,
            seed=spec.seed,
            storage_options=self.options,
            environment_options=environment_options(plan, spec.environment_options, channels),
            parallel=spec.parallel if isinstance(spec.parallel, int) else None,
            verbose=spec.verbose,
            format=spec.format,
            new_format="pb" if spec.kind == "crawl" else "json",
            metrics=_targets(spec.metrics),
            judging=self.judging,
            proposing=self.proposing,
        )

    def _channels(self) -> list[str]:
        """Return the channels to observe, with a screenshot for every record of a crawl."""
        channels = channels_for(self.player.make())
        if self.proposing is not None:
            channels = self.proposing.channels(channels)
        also = ("screenshot",) if self.spec.kind == "crawl" else ()
        return list(dict.fromkeys((*channels, *also))) if channels else channels


def _settings(env: EnvConfig, rank: Rank | None) -> RolloutSettings:
    return RolloutSettings(
        parallel=_parallel(env, rank),
        max_steps=env.max_steps,
        max_repetitive_actions=env.max_repetitive_actions,
        deadlines=Deadlines(
            step=env.step_timeout,
            episode=_times(env.task_timeout_minutes, _MINUTE),
            run=_times(env.run_timeout_minutes, _MINUTE),
        ),
        retry=RetryPolicy(
            max_retries=env.max_retries,
            pause=env.retry_policy.pause,
            max_pause=env.retry_policy.max_pause,
        ),
        completion=Completion(
            threshold=env.completion_threshold, grace=env.completion_grace_period
        ),
        order=env.task_order,
        politeness=Politeness(per_site=env.episodes_per_site, interval=env.site_interval),
        max_consecutive_errors=env.max_consecutive_errors,
        operations=_pools(env, rank),
    )


def _pools(env: EnvConfig, rank: Rank | None) -> OperationLimits:
    pools = env.http_pools.model_dump()
    if rank is not None:
        pools = {name: rank.scaled(size) if size else 0 for name, size in pools.items()}
    return OperationLimits(**pools)


def _parallel(env: EnvConfig, rank: Rank | None) -> Any:
    if rank is None or isinstance(env.server_size, str):
        return env.server_size
    return rank.scaled(env.server_size)


def _targets(config: MetricsConfig) -> MetricsTargets:
    wandb = None if config.wandb is None else WandbTarget(**config.wandb.model_dump())
    return MetricsTargets(tensorboard=config.tensorboard, wandb=wandb)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _blocklist(config: RolloutConfig) -> Blocklist | None:
    env = config.env_config
    if env.blocklist_path is None:
        return None
    path = env.blocklist_path
    if not is_url(path) and not Path(path).is_absolute():
        in_bucket = is_url(config.save_path)
        path = (
            f"{config.save_path.rstrip('/')}/{path}"
            if in_bucket
            else str(Path(config.save_path) / path)
        )
    return Blocklist(
        path,
        storage_options=(config.storage_options or None) if is_url(path) else None,
        ttl=env.blocklist_ttl_hours * _HOUR,
    )
