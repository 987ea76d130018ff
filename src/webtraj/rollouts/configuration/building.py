"""`build_rollout`: build a playable rollout from a configuration or a `RunSpec`."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import errors
from webtraj.rollouts.configuration import selection
from webtraj.rollouts.configuration.loading import Configuration
from webtraj.rollouts.configuration.recipes import judging_of, player_of, proposing_of
from webtraj.rollouts.configuration.running import ConfiguredRollout, blocklist_of
from webtraj.rollouts.configuration.webgym import Rank, rank_of, spec_of
from webtraj.rollouts.making import channels_for, environment_options
from webtraj.rollouts.sampling import Blocklist
from webtraj.runs.iterations import Iterations
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import Run, new_run_id, run_ids, run_of
from webtraj.runs.spec import RECORD, RunSpec
from webtraj.settings.configuration import (
    COMMAND_LINE,
    check_complete,
    merged,
    validate,
    without_secrets,
)
from webtraj.store.places import is_url, open_storage

if TYPE_CHECKING:
    from webtraj.agents.base import Agent
    from webtraj.rollouts.configuration.rollout import RolloutConfig

__all__ = ["build_rollout", "resume_run", "start_run"]

_LOGGER = logging.getLogger(__name__)

_PLANNED = {"kind", "preset", "episodes", "attempts", "seed", "group_size"}
"""Fields of `RunSpec` on which the plan depends."""


def build_rollout(
    configuration: Configuration | RolloutConfig | RunSpec,
    *,
    resume: bool | str = False,
    agent: Agent | None = None,
) -> ConfiguredRollout:
    """Build a rollout from a configuration: pick and plan the tasks, and claim an iteration.

    Nothing is played and no plan is written. Errors in task files, agent options and numbers show
    here, before anything starts.

    Args:
        configuration: A configuration from `load_configuration`, its values, or a `RunSpec`.
        resume: The id of a run to resume, or True for the latest. Its tasks are read from its plan
            instead of being picked again.
        agent: For a `RunSpec`: an agent that plays instead of the named one. It is left open.

    Returns:
        The rollout.

    Raises:
        InvalidInputError: The configuration is inconsistent or names something that does not
            exist, or there is no run to resume.
        StorageError: A bucket cannot be read or written.
        UnknownPresetError: No preset has a given name.
    """
    values = configuration.values if isinstance(configuration, Configuration) else configuration
    if isinstance(values, RunSpec):
        built = _of_run(values.settled(), resume, agent)
    else:
        built = _of_config(values, resume)
    if isinstance(configuration, Configuration):
        return dataclasses.replace(built, source=configuration.source)
    if isinstance(configuration, RunSpec):
        return built
    # JSON is valid YAML, and can hold any text.
    data = without_secrets(configuration.model_dump(by_alias=True))
    return dataclasses.replace(
        built, source=orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()
    )


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
        storage_options: For buckets: the dataset's, and the blocklist's.

    Raises:
        InvalidInputError: The run does not exist or has no such record, or a field cannot be
            changed.
    """
    storage = open_storage(out, storage_options)
    run = run_of(storage, resume=run_id or True, max_retries=given.get("max_retries"))
    run.read_plan()
    begun = run.read_begun(RECORD)
    if begun is None:
        raise errors.InvalidInputError(
            f"The run {run.run_id!r} in {out!r} has no record of its settings, so its agent is "
            "unknown: it was started in Python. "
            "Resume it with webtraj.rollouts.collect(resume=...), or pass its configuration again, "
            "with --config-name and --resume."
        )
    record = validate(begun, RunSpec, _where(out, run, RECORD)).record()
    if fixed := sorted(key for key in _PLANNED & set(given) if given[key] != record[key]):
        raise errors.InvalidInputError(
            f"Resuming uses the original plan, so --{fixed[0].replace('_', '-')} cannot be "
            f"changed from {record[fixed[0]]!r:.100}. Start a new run instead."
        )
    placed = {"out": out, "storage_options": dict(storage_options or {})}
    return _playable(_completed(merged(record, given), placed, _where(out, run, RECORD)), run)


def _where(out: str, run: Run, name: str) -> str:
    return f"{out}/runs/{run.run_id}/{name}"


def _completed(values: dict[str, Any], placed: Mapping[str, Any], where: str) -> RunSpec:
    """Return a record, changed, as the spec of the rest of its run; secrets must be given again."""
    check_complete(values, where)
    return validate({**values, **placed}, RunSpec, where)


def _of_config(config: RolloutConfig, resume: bool | str) -> ConfiguredRollout:
    """Return a rollout into the dataset of an iteration."""
    env = config.env_config
    rank = rank_of(env)
    spec = spec_of(config, rank)
    channels, blocklist = _checked(spec), blocklist_of(spec)
    iterations = Iterations(config.save_path, env.split, config.storage_options)
    suffix = "" if rank is None else rank.suffix
    claimed = False
    if resume:
        number, run = _run_to_resume(iterations, config.iteration, suffix, resume, spec.max_retries)
        plan, run_id = run.read_plan(), run.run_id
    else:
        number, plan, claimed = _planned(config, spec, blocklist, iterations, rank)
        run_id = new_run_id() + suffix
    return ConfiguredRollout(
        spec=spec.model_copy(update={"out": iterations.dataset(number)}),
        plan=plan,
        run_id=run_id,
        resume=bool(resume),
        environment_options=_environment_options(spec, plan, channels),
        blocklist=blocklist,
        iteration=number,
        ranked=rank is not None,
        claimed=iterations if claimed else None,
    )


def _planned(
    config: RolloutConfig,
    spec: RunSpec,
    blocklist: Blocklist | None,
    iterations: Iterations,
    rank: Rank | None,
) -> tuple[int, tuple[PlannedEpisode, ...], bool]:
    """Plan and claim an iteration; return its number, the plan, and whether the claim is new."""

    def plan_of(number: int) -> tuple[PlannedEpisode, ...]:
        return selection.plan_rollout(
            config, spec, blocklist=blocklist, iterations=iterations, number=number
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
    iterations: Iterations, number: int | None, suffix: str, resume: bool | str, max_retries: int
) -> tuple[int, Run]:
    """Return the run to resume and its iteration.

    It is the last iteration with a run that is not done, or with a run if all are done.
    """
    numbers = iterations.numbers() if number is None else (number,)
    done: tuple[int, Run] | None = None
    for found in reversed(numbers):
        storage = open_storage(iterations.dataset(found), iterations.storage_options)
        ids = [run_id for run_id in run_ids(storage) if run_id.endswith(suffix)]
        if isinstance(resume, str):
            ids = [run_id for run_id in ids if run_id == resume]
        if not ids:
            continue
        if isinstance(resume, str):
            return found, Run(storage, ids[-1])
        run = Run.unfinished(storage, ids, max_retries)
        if run is not None:
            if found != numbers[-1]:
                _LOGGER.warning(
                    "Nothing is left to play of iteration %d; iteration %d is resumed.",
                    numbers[-1],
                    found,
                )
            return found, run
        done = done or (found, Run(storage, ids[-1]))
    if done is not None:
        return done
    wanted = f"run {resume!r}" if isinstance(resume, str) else "run"
    raise errors.InvalidInputError(
        f"No {wanted} to resume in {iterations.place!r}. Start a new run without --resume, or give "
        "the save_path, split and iteration that it was started with."
    )


def _of_run(spec: RunSpec, resume: bool | str, agent: Agent | None) -> ConfiguredRollout:
    """Return a rollout into one dataset."""
    if agent is not None:  # The record says who played.
        spec = spec.model_copy(update={"agent": agent.name})
    if spec.out is None:
        raise errors.InvalidInputError("out is missing, the dataset to write; give a folder.")
    if not resume:
        return _playable(spec, agent=agent)
    storage = open_storage(spec.out, spec.storage_options)
    run = run_of(storage, resume=resume, max_retries=spec.given().get("max_retries"))
    begun = run.read_begun(RECORD)
    if begun is None:
        return _playable(spec, run, agent)
    # The spec may repeat what began the run, or leave it out: then the record counts.
    where = _where(spec.out, run, RECORD)
    record = validate(begun, RunSpec, where).record()
    values = record | {key: value for key, value in spec.given().items() if key not in _PLANNED}
    placed = {"out": spec.out, "storage_options": spec.storage_options}
    return _playable(_completed(values, placed, where), run, agent)


def _playable(
    spec: RunSpec, run: Run | None = None, agent: Agent | None = None
) -> ConfiguredRollout:
    """Return a new rollout, or the rest of a run."""
    places = (spec.out, spec.blocklist_path, *spec.preset)
    if spec.storage_options and not any(is_url(place) for place in places if place):
        raise errors.InvalidInputError(
            f"storage_options (--option) apply to buckets, but out is the folder {spec.out!r}. "
            "Leave them out."
        )
    channels, blocklist = _checked(spec, agent), blocklist_of(spec)
    proposing = proposing_of(spec)
    if proposing is not None:
        channels = proposing.channels(channels)
    if channels and spec.kind == "crawl":
        channels = [*channels, "screenshot"]
    plan = selection.plan_run(spec, blocklist) if run is None else run.read_plan()
    if run is None and proposing is not None:
        proposing.check(plan)
    return ConfiguredRollout(
        spec=spec,
        plan=plan,
        run_id=new_run_id() if run is None else run.run_id,
        resume=run is not None,
        environment_options=_environment_options(spec, plan, channels),
        blocklist=blocklist,
        agent=agent,
    )


def _checked(spec: RunSpec, agent: Agent | None = None) -> list[str]:
    """Check who plays, judges and proposes. Return the channels that the agent needs."""
    judging_of(spec), proposing_of(spec)
    return channels_for(player_of(spec).make() if agent is None else agent)


def _environment_options(
    spec: RunSpec, plan: Sequence[PlannedEpisode], channels: Sequence[str]
) -> dict[str, Any]:
    observed = list(dict.fromkeys(channels)) if spec.observe is None else spec.observe
    return environment_options(plan, spec.environment_options, observed)
