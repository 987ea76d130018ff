"""Task selection of a configured rollout: from task files to a plan.

Read files -> drop duplicates -> drop blocked sites (train) -> drop tasks played before (if
requested) -> sample -> set step limits -> plan the attempts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from webtraj import errors
from webtraj.environments.tasks import TaskSpec, read_tasks
from webtraj.metrics.facts import EpisodeFacts
from webtraj.metrics.forks import StepValue, last_good, most_open, step_values
from webtraj.metrics.metrics_report import Measuring
from webtraj.rollouts import samplers
from webtraj.rollouts.configuration.dialects import TASK_FILES
from webtraj.rollouts.forks import goes_on, plan_forks
from webtraj.runs.iterations import Iterations
from webtraj.runs.plan import (
    ForkPoint,
    PlannedEpisode,
    check_groups,
    plan_episodes,
    plan_tasks,
    specs_of_presets,
)
from webtraj.runs.run import Run, run_ids
from webtraj.runs.spec import DifficultySteps, ForkConfig, IterationConfig, RunSpec
from webtraj.store.tries import find_superseded
from webtraj.trajectory import EndReason, is_finished

if TYPE_CHECKING:
    from webtraj.datasets import Dataset
    from webtraj.store.index import EpisodeSummary

__all__ = ["digest_of", "plan_iteration", "plan_run"]


def plan_iteration(
    spec: RunSpec,
    config: IterationConfig,
    *,
    blocklist: samplers.Blocklist | None,
    iterations: Iterations,
    number: int,
) -> tuple[PlannedEpisode, ...]:
    """Return the plan of an iteration.

    Args:
        spec: The settings.
        config: How to sample the tasks.
        blocklist: Sites that the split `train` leaves out.
        iterations: The iterations so far.
        number: The iteration's number.

    Raises:
        InvalidInputError: A task file is missing or invalid, or no task is left.
        StorageError: A bucket, or an earlier iteration, cannot be read.
    """
    if not all(spec.preset) or not spec.preset:
        raise errors.InvalidInputError(
            f"The split {config.split!r} has no tasks; set preset, in WebGym's keys "
            f"env_config.{config.split}_tasks, to a .jsonl or .parquet file, or to a preset such "
            "as miniwob/all."
        )
    # A preset's tasks have unique names; tasks of files are compared by their content.
    tasks = samplers.distinct(_read(spec))
    if config.split == "train" and blocklist is not None:
        tasks = samplers.drop_blocked(tasks, blocklist)
    if config.unseen:
        tasks = samplers.unseen(tasks, iterations.find_played(before=number))
    sampler = _sampler_of(config, iterations, number)
    # Another one for each iteration of `train`, the same for all of `test`.
    seed = spec.seed + number - 1 if config.split == "train" else spec.seed
    picked = [
        dataclasses.replace(
            task, max_steps=task.max_steps or _steps(task, config.steps) or spec.max_steps
        )
        for task in sampler(tasks, seed=seed)
    ]
    return plan_tasks(picked, seed=seed, attempts=spec.attempts, group_size=spec.group_size)


def plan_run(
    spec: RunSpec,
    blocklist: samplers.Blocklist | None = None,
    tasks: Iterable[TaskSpec | PlannedEpisode] | None = None,
) -> tuple[PlannedEpisode, ...]:
    """Return the plan of a run: `attempts` at each task, or `episodes` in total.

    Tasks on blocked sites are left out.

    Args:
        spec: The settings.
        blocklist: Sites to leave out.
        tasks: Tasks, or a whole plan, instead of those that the settings name.

    Raises:
        InvalidInputError: A task file is missing or invalid, or no task is left.
        StorageError: A bucket cannot be read.
        UnknownPresetError: No preset has a given name.
    """
    counts = {"attempts": spec.attempts, "seed": spec.seed, "group_size": spec.group_size}
    if spec.fork is not None:
        return _plan_of_forks(spec, spec.fork)
    if tasks is not None:
        return _plan_of(list(tasks), spec, blocklist)
    in_files = any(name.endswith(TASK_FILES) for name in spec.preset)
    if spec.kind == "run" and spec.proposer is None and not in_files and blocklist is None:
        episodes = spec.episodes
        if spec.attempts > 1:
            episodes = spec.attempts * spec.group_size * len(plan_episodes(spec.preset))
        return plan_episodes(
            spec.preset, episodes=episodes, seed=spec.seed, group_size=spec.group_size
        )
    check_groups(spec.episodes, spec.group_size)
    tasks = _read(spec)
    if blocklist is not None:
        tasks = samplers.drop_blocked(tasks, blocklist)
    wanted = None if spec.episodes is None else spec.episodes // spec.group_size
    picked = list(samplers.Sequence(wanted)(samplers.distinct(tasks), seed=spec.seed))
    if spec.kind == "crawl":
        picked = [
            dataclasses.replace(task, max_steps=task.max_steps or spec.max_steps) for task in picked
        ]
    rounds = itertools.islice(itertools.cycle(picked), wanted or len(picked))
    return plan_tasks(rounds, **counts)


def _plan_of_forks(spec: RunSpec, fork: ForkConfig) -> tuple[PlannedEpisode, ...]:
    """Return the plan of a run that forks, by episode and step.

    A named episode must have every step in `fork.at`. Other episodes are forked at those steps of
    it that they have.
    """
    from webtraj.datasets.dataset import open_dataset

    dataset = open_dataset(fork.dataset, storage_options=spec.storage_options)
    found = {summary.episode_id: summary for summary in dataset.summaries}
    if unknown := [one for one in fork.episodes if one not in found]:
        raise errors.UnknownEpisodeError(
            f"The dataset {dataset.url!r} has no episode {unknown[0]!r:.200}. "
            f"`{errors.command('ls', dataset.url)}` lists them."
        )
    chosen = [found[one] for one in fork.episodes or _forkable(dataset)]
    values = {}
    if _BY_VALUE.keys() & set(fork.at):
        values = step_values(dataset.place.storage, dataset.summaries)
    points = [
        ForkPoint(summary.episode_id, step)
        for summary in chosen
        for step in dict.fromkeys(
            _fork_steps(fork, summary, dataset, values.get(summary.episode_id, ()))
        )
    ]
    if not points:
        _refuse_to_fork(dataset, fork, chosen)
    if spec.max_steps and (late := [one.step for one in points if one.step >= spec.max_steps]):
        raise errors.InvalidInputError(
            f"max_steps={spec.max_steps} counts repeated steps too, so a fork at step {late[0]} "
            "would end before the agent decides. Give a larger limit, or none."
        )
    return plan_forks(dataset, points, group_size=spec.group_size, options=spec.environment_options)


_BY_VALUE = {"last-good": last_good, "most-open": most_open}


def _fork_steps(
    fork: ForkConfig, summary: EpisodeSummary, dataset: Dataset, values: Sequence[StepValue]
) -> Iterator[int]:
    """Yield the steps at which to fork an episode; for an unnamed one, only those that it has."""
    ended = is_finished(summary.outcome, summary.end_reason)
    for at in fork.at or range(summary.num_steps):
        if at == "cut-off":
            terminated = summary.end_reason is EndReason.TERMINATED
            if not terminated and goes_on(dataset[summary.episode_id]):
                yield summary.num_steps
        elif isinstance(at, str):
            if (step := _BY_VALUE[at](values)) is not None:
                yield step
        elif fork.episodes or (ended and at < summary.num_steps):
            yield at


def _refuse_to_fork(
    dataset: Dataset, fork: ForkConfig, chosen: Sequence[EpisodeSummary]
) -> NoReturn:
    """Raise an error that says why there is no step to fork at."""
    ended = [one.num_steps for one in chosen if is_finished(one.outcome, one.end_reason)]
    longest = max(ended, default=0)
    if "cut-off" in fork.at:
        why = "no episode of it was cut off before its world ended"
    elif _BY_VALUE.keys() & set(fork.at):
        why = (
            "the forks in it show no step where success falls or differs. Fork at several steps "
            "first, with --values"
        )
    elif longest:
        least = min(at for at in fork.at if isinstance(at, int))
        raise errors.InvalidInputError(
            f"No episode continues after step {least}: the longest has {longest} "
            f"action{'s' * (longest != 1)}. Give a smaller step to fork at (--at)."
        )
    else:
        why = "it has no episode that ended after an action, has a seed, and is not a fork"
    raise errors.InvalidInputError(f"Nothing to fork in the dataset {dataset.url!r}: {why}.")


def _forkable(dataset: Dataset) -> list[str]:
    """Return the episodes that count, can be replayed, and are not forks themselves."""
    storage, gone = dataset.place.storage, find_superseded(dataset.summaries)
    runs = [Run(storage, run_id) for run_id in run_ids(storage)]
    forking = [run for run in runs if any(planned.fork for planned in run.read_plan())]
    return [
        one.episode_id
        for one in dataset.summaries
        if one.seed is not None
        and one.episode_id not in gone
        and not any(run.place_of(one.episode_id) for run in forking)
    ]


def _plan_of(
    items: Sequence[Any], spec: RunSpec, blocklist: samplers.Blocklist | None
) -> tuple[PlannedEpisode, ...]:
    """Return the plan for given tasks; a given plan as it is."""
    if spec.preset or spec.episodes is not None:
        raise errors.InvalidInputError(
            "preset and episodes cannot be given beside tasks. To play each task several times, "
            "use attempts."
        )
    if all(isinstance(item, TaskSpec) for item in items):
        kept = items if blocklist is None else list(samplers.drop_blocked(items, blocklist))
        return plan_tasks(kept, attempts=spec.attempts, seed=spec.seed, group_size=spec.group_size)
    if all(isinstance(item, PlannedEpisode) for item in items):
        return tuple(items)
    kinds = ", ".join(sorted({type(item).__name__ for item in items}))
    raise errors.InvalidInputError(
        f"A rollout plays TaskSpecs or PlannedEpisodes, all of one kind; got {kinds}. Presets are "
        "named in the RunSpec."
    )


def _read(spec: RunSpec) -> Iterator[TaskSpec]:
    """Yield the tasks of a run's files and presets. With a proposer, only files are allowed."""
    for source in spec.preset:
        if spec.proposer is None and not source.endswith(TASK_FILES):
            yield from specs_of_presets([source])
        else:
            # The tasks' bucket and the episodes' bucket share their options.
            yield from read_tasks(source, storage_options=spec.storage_options)


def _sampler_of(config: IterationConfig, iterations: Iterations, number: int) -> samplers.Sampler:
    match config.samples_by:
        case "sequential":
            return samplers.Sequence(config.size, repeat=config.repeat)
        case "uniform":
            return samplers.UniformSampler(config.size)
        case "curriculum":
            last = last_successes(iterations, before=number)
            return samplers.CurriculumSampler(config.size, last)
    assert config.size is not None  # The configuration's validator checks both.
    assert config.bands is not None
    bands = {
        name: samplers.Band(low=band.range[0], high=band.range[1], weight=band.weight)
        for name, band in config.bands.items()
    }
    return samplers.RatioSampler(config.size, bands)


def last_successes(iterations: Iterations, *, before: int) -> dict[str, tuple[int, int]]:
    """Return successes and attempts of each task in the last iteration that played it.

    Infrastructure failures do not count.

    Raises:
        DatasetError: An iteration's dataset cannot be read.
        StorageError: Likewise.
    """
    found: dict[str, tuple[int, int]] = {}
    for number in iterations.numbers():
        if number < before:
            measuring = Measuring(by=("task",), max_groups=None)
            for result in iterations.results(number):  # Of each row of each run, the one try.
                measuring.add(EpisodeFacts.of_result(result))
            report = measuring.report()
            for name, task in report.by["task"].items():
                if task.success_rate.denominator:
                    found[name] = (task.success_rate.numerator, task.success_rate.denominator)
    return found


def digest_of(spec: RunSpec) -> str:
    """Return a digest of everything that an iteration's plan depends on, except its number."""
    settings = spec.model_dump(
        mode="json",
        include={"preset", "attempts", "group_size", "seed", "max_steps", "iteration"},
        exclude={"iteration": {"number", "rank"}},
    )
    return hashlib.sha256(repr(settings).encode()).hexdigest()[:16]


def _steps(task: TaskSpec, limits: DifficultySteps | list[int] | None) -> int | None:
    if not limits or task.difficulty < 1:
        return None
    if isinstance(limits, list):
        return limits[min(task.difficulty, len(limits)) - 1]
    return int(getattr(limits, task.level))
