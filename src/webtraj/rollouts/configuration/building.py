"""`build_rollout`: build a playable rollout from a configuration."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
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
    built = _of_run(values, resume) if isinstance(values, RunSpec) else _of_config(values, resume)
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


def _of_config(config: RolloutConfig, resume: bool | str) -> ConfiguredRollout:
    """Return a rollout into the dataset of an iteration."""
    env = config.env_config
    rank = rank_of(env)
    player, settings, judging = player_of(config, rank), _settings(env, rank), judging_of(config)
    blocklist = _blocklist(config)
    options = _bucket_options(config, config.save_path)
    iterations = Iterations(config.save_path, env.split, options)
    channels = channels_for(player.make())
    suffix = "" if rank is None else rank.suffix
    claimed = False
    if resume:
        number, run = _run_to_resume(iterations, config.iteration, suffix, resume)
        plan, run_id = run.read_plan(), run.run_id
    else:
        number, plan, claimed = _planned(config, iterations, blocklist, rank)
        run_id = new_run_id() + suffix
    observed = channels if env.observe is None else env.observe
    return ConfiguredRollout(
        plan=plan,
        player=player,
        settings=settings,
        out=iterations.dataset(number),
        run_id=run_id,
        resume=bool(resume),
        seed=config.seed,
        storage_options=options,
        environment_options=environment_options(plan, env.environment_options, observed),
        parallel=env.server_size if isinstance(env.server_size, int) else None,
        browsers=Browsers(
            contexts=env.contexts_per_browser,
            endpoint=env.browser_endpoint,
            wait_timeout=env.wait_timeout,
            operation_timeout=env.operation_timeout,
        ),
        blocklist=blocklist,
        save_every_percent=env.save_every_percent,
        verbose=env.verbose,
        iteration=number,
        ranked=rank is not None,
        judging=judging,
        claimed=iterations if claimed else None,
        format=config.format,
        metrics=_targets(config.metrics),
    )


def _planned(
    config: RolloutConfig, iterations: Iterations, blocklist: Blocklist | None, rank: Rank | None
) -> tuple[int, tuple[PlannedEpisode, ...], bool]:
    """Plan and claim an iteration; return its number, the plan, and whether the claim is new."""

    def plan_of(number: int) -> tuple[PlannedEpisode, ...]:
        return selection.plan_rollout(
            config, blocklist=blocklist, iterations=iterations, number=number
        )

    given = config.iteration
    if rank is not None and given is None:
        raise errors.InvalidInputError(
            "Ranks share an iteration; give every rank its number, such as iteration=1."
        )
    numbers = iterations.numbers()
    number = max(numbers, default=0) + 1 if given is None else given
    plan = plan_of(number)
    if rank is not None:
        digest = selection.digest_of(config)
        plan = rank.rows(iterations.share_plan(number, digest, plan, seed=config.seed))
        if not plan:
            raise errors.InvalidInputError(
                f"No task is left for rank {rank.number} of {len(rank.weights)}: the plan has too "
                "few. Use fewer ranks."
            )
    claimed = rank is None and number not in iterations.numbers()
    taken = iterations.claim(given)
    if taken != number:  # Another rollout just claimed that number.
        number, plan = taken, plan_of(taken)
    return number, plan, claimed


def _run_to_resume(
    iterations: Iterations, number: int | None, suffix: str, resume: bool | str
) -> tuple[int, Run]:
    """Return the run to resume and its iteration: the last one that has such a run."""
    numbers = iterations.numbers() if number is None else (number,)
    for found in reversed(numbers):
        storage = open_storage(iterations.dataset(found), iterations.storage_options)
        ids = [run_id for run_id in run_ids(storage) if run_id.endswith(suffix)]
        if isinstance(resume, str):
            ids = [run_id for run_id in ids if run_id == resume]
        if ids:
            if found != numbers[-1] and not isinstance(resume, str):
                _LOGGER.warning(
                    "Iteration %d has no run; iteration %d is resumed.", numbers[-1], found
                )
            return found, Run(storage, ids[-1])
    wanted = f"run {resume!r}" if isinstance(resume, str) else "run"
    raise errors.InvalidInputError(
        f"No {wanted} to resume in {iterations.place!r}. Start a new run without --resume, or give "
        "the save_path, split and iteration that it was started with."
    )


def _of_run(spec: RunSpec, resume: bool | str) -> ConfiguredRollout:
    """Return a rollout into one dataset."""
    if spec.out is None:
        raise errors.InvalidInputError("out is missing, the dataset to write; give a folder.")
    # `basic` is the name that Orby's collector has for it.
    agent = "model" if spec.agent == "basic" else spec.agent
    player = Player(agent, spec.agents_options, spec.seed)
    proposing, judging = proposing_of(spec), judging_of_run(spec)
    options = _bucket_options(spec, spec.out)
    channels = channels_for(player.make())
    if proposing is not None:
        from webtraj.exploring.seen import channels_with

        channels = channels_with(channels)
    if channels and spec.kind == "crawl":
        channels = [*channels, "screenshot"]
    if resume:
        run = run_of(open_storage(spec.out, options), resume=resume)
        plan, run_id = run.read_plan(), run.run_id
    else:
        plan, run_id = selection.plan_run(spec), new_run_id()
        if proposing is not None:
            from webtraj.exploring.crawling import require_coarse

            require_coarse(planned.spec for planned in plan)
    return ConfiguredRollout(
        plan=plan,
        player=player,
        settings=RolloutSettings(
            parallel=spec.parallel or 1,
            max_steps=spec.max_steps,
            max_repetitive_actions=spec.max_repetitive_actions,
            deadlines=Deadlines(episode=spec.timeout),
            retry=RetryPolicy(max_retries=spec.max_retries),
        ),
        out=spec.out,
        run_id=run_id,
        resume=bool(resume),
        seed=spec.seed,
        storage_options=options,
        environment_options=environment_options(
            plan, spec.environment_options, list(dict.fromkeys(channels))
        ),
        parallel=spec.parallel if isinstance(spec.parallel, int) else None,
        verbose=spec.verbose,
        format=spec.format,
        new_format="pb" if spec.kind == "crawl" else "json",
        metrics=_targets(spec.metrics),
        judging=judging,
        proposing=proposing,
    )


def _bucket_options(config: RolloutConfig | RunSpec, place: str) -> Mapping[str, Any] | None:
    return (config.storage_options or None) if is_url(place) else None


def _settings(env: EnvConfig, rank: Rank | None) -> RolloutSettings:
    parallel: Any = env.server_size
    pools = env.http_pools.model_dump()
    if rank is not None:
        parallel = parallel if parallel == "auto" else rank.scaled(parallel)
        pools = {name: rank.scaled(size) if size else 0 for name, size in pools.items()}
    return RolloutSettings(
        parallel=parallel,
        max_steps=env.max_steps,
        max_repetitive_actions=env.max_repetitive_actions,
        deadlines=Deadlines(
            step=env.step_timeout,
            episode=_seconds(env.task_timeout_minutes),
            run=_seconds(env.run_timeout_minutes),
        ),
        retry=RetryPolicy(max_retries=env.max_retries, **env.retry_policy.model_dump()),
        completion=Completion(
            threshold=env.completion_threshold, grace=env.completion_grace_period
        ),
        order=env.task_order,
        politeness=Politeness(per_site=env.episodes_per_site, interval=env.site_interval),
        max_consecutive_errors=env.max_consecutive_errors,
        operations=OperationLimits(**pools),
    )


def _seconds(minutes: float | None) -> float | None:
    return None if minutes is None else minutes * 60.0


def _targets(config: MetricsConfig) -> MetricsTargets:
    wandb = None if config.wandb is None else WandbTarget(**config.wandb.model_dump())
    return MetricsTargets(tensorboard=config.tensorboard, wandb=wandb)


def _blocklist(config: RolloutConfig) -> Blocklist | None:
    env = config.env_config
    if env.blocklist_path is None:
        return None
    path = selection.place_of(env.blocklist_path, config.save_path)
    return Blocklist(
        path,
        storage_options=_bucket_options(config, path),
        ttl=env.blocklist_ttl_hours * _HOUR,
    )
