"""`build_rollout`: plan a rollout from a `RunSpec` or a configuration."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.environments.tasks import TaskSpec
from webtraj.judging.base import PARALLEL
from webtraj.rollouts.configuration.config_file import Configuration
from webtraj.rollouts.configuration.ranks import rows_of, scale, suffix_of
from webtraj.rollouts.configuration.selection import digest_of, plan_iteration, plan_run
from webtraj.rollouts.episode_environment import channels_for, environment_options
from webtraj.rollouts.recipes import make_agent, make_judge, make_proposing, with_forks
from webtraj.rollouts.rollout import Rollout
from webtraj.rollouts.samplers import Blocklist
from webtraj.runs.iterations import Iterations
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import SETTINGS, Run, new_run_id, run_ids, run_of
from webtraj.runs.spec import ForkConfig, IterationConfig, RunSpec
from webtraj.settings.configuration import check_complete, merge, validate
from webtraj.store.places import is_url, open_storage

if TYPE_CHECKING:
    from webtraj.agents.base import Agent
    from webtraj.collectors.base import TrajectoryCollector
    from webtraj.environments.browser.pool import BrowserPool
    from webtraj.judging.base import Judge

__all__ = ["build_rollout", "resume_run"]

_LOGGER = logging.getLogger(__name__)

_PLANNED = {"kind", "preset", "fork", "episodes", "attempts", "seed", "group_size"}
"""Fields of `RunSpec` on which the plan depends."""
_HOUR = 3600.0


def build_rollout(
    configuration: Configuration | RunSpec,
    *,
    resume: bool | str = False,
    run_id: str | None = None,
    tasks: Sequence[TaskSpec] | Sequence[PlannedEpisode] | None = None,
    agent: Agent | None = None,
    agent_factory: Callable[[], Agent] | None = None,
    judge: Judge | None = None,
    pool: BrowserPool | None = None,
    trajectory_collector: TrajectoryCollector | None = None,
) -> Rollout:
    """Build a rollout: plan the tasks, make the agent and the judge, claim an iteration.

    Nothing is played and no plan is written. Errors in task files, agent options and numbers are
    raised here, before anything starts.

    Args:
        configuration: The settings, or a configuration from `load_configuration`.
        resume: The id of a run to resume, or True for the latest. Its tasks are read from its plan
            instead of being picked again.
        run_id: As for `collect`.
        tasks: As for `collect`.
        agent: As for `collect`.
        agent_factory: Makes an agent of your own on each machine of a cluster.
        judge: As for `collect`.
        pool: As for `collect`.
        trajectory_collector: As for `collect`.

    Returns:
        The rollout.

    Raises:
        InvalidInputError: The settings are inconsistent or name something that does not exist, or
            there is no run to resume.
        StorageError: A bucket cannot be read or written.
        UnknownPresetError: No preset has a given name.
    """
    spec = configuration.spec if isinstance(configuration, Configuration) else configuration
    known = configuration.data if isinstance(configuration, Configuration) else {}
    if isinstance(configuration, Configuration) and configuration.dialect is not None:
        configuration.dialect.check_model(spec)
    given: Any = agent if agent is not None else agent_factory
    if given is not None:  # The record names the agent that plays.
        name = getattr(given, "name", None) or getattr(given, "__name__", type(given).__name__)
        spec = spec.model_copy(update={"agent": name})
    more: dict[str, Any] = {
        "agent": agent,
        "agent_factory": agent_factory,
        "judge": judge,
        "pool": pool,
        "trajectory_collector": trajectory_collector,
    }
    if spec.out is None:
        for name, value in (
            ("resume", resume), ("run_id", run_id), ("format", spec.format),
            ("judge", judge or spec.judge), ("proposer", spec.proposer), ("metrics", spec.metrics),
            ("iteration", spec.iteration),
        ):  # fmt: skip
            if value:
                raise errors.InvalidInputError(
                    f"{name} works only with out, the place where the run is recorded."
                )
        return _playable(spec, lambda blocked: _Begun(plan_run(spec, blocked, tasks)), **more)
    if trajectory_collector is not None:
        raise errors.InvalidInputError(
            f"Got out={spec.out!r} and a trajectory_collector; give only one of them."
        )
    if spec.iteration is not None:
        if tasks is not None:
            raise errors.InvalidInputError("An iteration samples the tasks of preset; got tasks.")
        fields = None if isinstance(configuration, Configuration) else spec.model_fields_set
        return _iteration(spec, spec.iteration, resume, run_id, fields, configuration=known, **more)
    storage = open_storage(spec.out, spec.storage_options)
    if not resume:
        run = Run(storage, run_id or new_run_id())
        begin = lambda blocked: _Begun(plan_run(spec, blocked, tasks), run)  # noqa: E731
        return _playable(spec, begin, configuration=known, **more)
    changed = spec.given_fields()
    if isinstance(configuration, Configuration):  # It always has the settings of the plan.
        changed = {name: value for name, value in changed.items() if name not in _PLANNED}
    run = run_of(storage, run_id=run_id, resume=resume, max_retries=changed.get("max_retries"))
    return _rest(run, spec, changed, **more)


def resume_run(
    given: Mapping[str, Any],
    *,
    out: str,
    run_id: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Rollout:
    """Build the rollout for the rest of a run, from the settings beside its plan.

    Args:
        given: Fields to change, such as `parallel`, not checked yet.
        out: The dataset of the run.
        run_id: The run. Default: the latest.
        storage_options: Bucket options of the dataset and the blocklist.

    Raises:
        InvalidInputError: The run does not exist or has no settings, or a field cannot be changed.
    """
    storage = open_storage(out, storage_options)
    run = run_of(storage, resume=run_id or True, max_retries=given.get("max_retries"))
    placed = RunSpec(out=out, storage_options=dict(storage_options or {}))
    return _rest(run, placed, given)


def _rest(run: Run, placed: RunSpec, given: Mapping[str, Any], **more: Any) -> Rollout:
    """Return the rollout for the rest of a run, with its own settings except for those given."""
    plan = run.read_plan()
    spec = _read_settings(run, placed, given)
    return _playable(spec, lambda blocked: _Begun(plan, run, resume=True), **more)


def _read_settings(run: Run, placed: RunSpec, given: Mapping[str, Any]) -> RunSpec:
    """Return a run's own settings, except for those given."""
    begun = run.read_record()
    where = f"{placed.out}/runs/{run.run_id}/{SETTINGS}"
    if begun is None:
        raise errors.InvalidInputError(
            f"The run {run.run_id!r} in {placed.out!r} has no {SETTINGS}, so its agent is unknown. "
            "Pass its configuration again, with --config and --resume, or start a new run."
        )
    record = validate(begun, RunSpec, where).record()
    for key in sorted(_PLANNED & set(given)):
        value = _as_data(given[key])
        if not _agrees(record, key, value):
            raise errors.InvalidInputError(
                f"Resuming uses the original plan, so {key} cannot be changed from "
                f"{record[key]!r:.100} to {value!r:.100}. Start a new run instead."
            )
    values = merge(record, given)
    check_complete(values, where)
    for name in ("out", "storage_options", "iteration"):
        values[name] = getattr(placed, name)
    return validate(values, RunSpec, where)


@dataclasses.dataclass(frozen=True, slots=True)
class _Begun:
    """A run with its plan."""

    plan: tuple[PlannedEpisode, ...]
    run: Run | None = None
    resume: bool = False
    iteration: int | None = None
    out: str | None = None
    claimed: Iterations | None = None


def _iteration(
    spec: RunSpec, config: IterationConfig, resume: bool | str, run_id: str | None,
    given: Collection[str] | None, **more: Any,
) -> Rollout:  # fmt: skip
    """Return a rollout into the dataset of an iteration.

    When a run is resumed, `given` holds the fields that override its own; None means all.
    """
    assert spec.out is not None
    iterations = Iterations(spec.out, config.split, spec.storage_options)
    rank, suffix = config.rank, suffix_of(config.rank)
    share = spec if rank is None else scale(spec, rank)

    def begin(blocklist: Blocklist | None) -> _Begun:
        number, plan, claimed = _plan_iteration(spec, config, blocklist, iterations)
        out = iterations.dataset(number)
        run = Run(open_storage(out, iterations.storage_options), (run_id or new_run_id()) + suffix)
        claim = iterations if claimed else None
        return _Begun(plan, run, iteration=number, out=out, claimed=claim)

    if not resume:
        return _playable(share, begin, **more)
    retries = spec.max_retries if given is None or "max_retries" in given else None
    number, run = _run_to_resume(iterations, config.number, suffix, run_id or resume, retries)
    out = iterations.dataset(number)
    begun = _Begun(run.read_plan(), run, resume=True, iteration=number, out=out)
    if given is not None:
        changed = {
            name: value
            for name, value in share.given_fields().items()
            if name in given and name not in _PLANNED
        }
        share = _read_settings(run, share, changed)
    return _playable(share, lambda blocked: begun, **more)


def _plan_iteration(
    spec: RunSpec, config: IterationConfig, blocklist: Blocklist | None, iterations: Iterations
) -> tuple[int, tuple[PlannedEpisode, ...], bool]:
    """Plan and claim an iteration; return its number, the plan, and whether the claim is new."""

    def plan_of(number: int) -> tuple[PlannedEpisode, ...]:
        return plan_iteration(
            spec, config, blocklist=blocklist, iterations=iterations, number=number
        )

    given, rank = config.number, config.rank
    numbers = iterations.numbers()
    number = max(numbers, default=0) + 1 if given is None else given
    plan = plan_of(number)
    if rank is not None:
        plan = rows_of(rank, iterations.share_plan(number, digest_of(spec), plan, seed=spec.seed))
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
    iterations: Iterations,
    number: int | None,
    suffix: str,
    resume: bool | str,
    max_retries: int | None,
) -> tuple[int, Run]:
    """Return the run to resume and its iteration.

    It is the last iteration with an unfinished run. If all are finished, it is the last one with a
    run.
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
        run = Run.find_unfinished(storage, ids, max_retries)
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


def _playable(
    spec: RunSpec,
    begin: Callable[[Blocklist | None], _Begun],
    *,
    configuration: Mapping[str, Any] | None = None,
    agent: Agent | None = None,
    agent_factory: Callable[[], Agent] | None = None,
    judge: Judge | None = None,
    pool: BrowserPool | None = None,
    trajectory_collector: TrajectoryCollector | None = None,
) -> Rollout:
    """Return a rollout of the result of `begin`, which is called after all other checks."""
    forked = None if spec.fork is None else spec.fork.dataset
    places = (spec.out, spec.blocklist_path, forked, *spec.preset)
    if spec.storage_options and not any(is_url(place) for place in places if place):
        raise errors.InvalidInputError(
            f"storage_options (--option) apply to buckets, but out is the folder {spec.out!r}. "
            "Leave them out."
        )
    made_agent = agent is None and agent_factory is None
    if made_agent:
        agent = make_agent(spec)
    elif agent is not None:
        agent = with_forks(spec, agent)
    made_judge = judge is None
    judge = _check_judge(spec, make_judge(spec) if made_judge else judge)
    blocklist, proposing = _blocklist_of(spec), make_proposing(spec)
    channels = [] if agent is None else channels_for(agent)
    if proposing is not None:
        channels = proposing.channels(channels)
    if channels and spec.kind == "crawl":
        channels = [*channels, "screenshot"]
    begun = begin(blocklist)
    if proposing is not None and not begun.resume:
        proposing.check(begun.plan)
    return Rollout(
        spec=spec if begun.out is None else spec.model_copy(update={"out": begun.out}),
        plan=begun.plan,
        run=begun.run,
        resume=begun.resume,
        iteration=begun.iteration,
        claimed=begun.claimed,
        environment_options=_environment_options(spec, begun.plan, channels),
        agent=agent,
        close_agent=made_agent,
        agent_factory=functools.partial(_make_agent_on_node, spec, agent_factory),
        judge=judge,
        close_judge=made_judge,
        proposing=proposing,
        blocklist=blocklist,
        pool=pool,
        trajectory_collector=trajectory_collector,
        configuration=configuration or {},
    )


def _agrees(record: Mapping[str, Any], key: str, value: Any) -> bool:
    """Return whether an unchecked value, in any notation, equals the recorded one."""
    if value == record[key]:
        return True
    try:
        spec = validate(merge(record, {key: value}), RunSpec, key)
    except errors.InvalidInputError:
        return False
    return bool(spec.record()[key] == record[key])


def _as_data(value: Any) -> Any:
    """Return a setting in the form of the record."""
    return value.model_dump() if isinstance(value, ForkConfig) else value


def _make_agent_on_node(spec: RunSpec, factory: Callable[[], Agent] | None) -> Agent:
    """Return an agent for a machine of a cluster."""
    return make_agent(spec) if factory is None else with_forks(spec, factory())


def _check_judge(spec: RunSpec, judge: Judge | None) -> Judge | None:
    """Return a judge after checking that it can judge a rollout with these settings."""
    if judge is not None:
        from webtraj.judging.judged import check_judging

        check_judging(judge, when=spec.judge_when, parallel=spec.judge_parallel or PARALLEL)
    return judge


def _environment_options(
    spec: RunSpec, plan: Sequence[PlannedEpisode], channels: Sequence[str]
) -> dict[str, Any]:
    observed = list(dict.fromkeys(channels)) if spec.observe is None else spec.observe
    return environment_options(plan, spec.environment_options, observed)


def _blocklist_of(spec: RunSpec) -> Blocklist | None:
    """Return the list of sites that refused the agent; None if none is kept."""
    if spec.blocklist_path is None:
        return None
    return Blocklist(
        spec.blocklist_path,
        storage_options=spec.storage_options,
        ttl=spec.blocklist_ttl_hours * _HOUR,
    )
