"""Task selection of a configured rollout: from task files to a plan.

Read files -> drop duplicates -> drop blocked sites (train) -> drop tasks played before (if
requested) -> sample -> set step limits -> plan the attempts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.metrics.measuring import measure_results
from webtraj.rollouts import sampling
from webtraj.rollouts.collecting import plan_of
from webtraj.runs.iterations import Iterations
from webtraj.runs.plan import (
    PlannedEpisode,
    check_groups,
    plan_tasks,
    specs_of_presets,
)
from webtraj.runs.spec import RunSpec
from webtraj.store.places import is_url
from webtraj.tasks import TaskSpec, read_tasks

if TYPE_CHECKING:
    from webtraj.rollouts.configuration.rollout import DifficultySteps, EnvConfig, RolloutConfig

__all__ = ["digest_of", "place_of", "plan_rollout", "plan_run", "read_sources"]

_TASK_FILES = (".jsonl", ".parquet")


def plan_rollout(
    config: RolloutConfig,
    *,
    blocklist: sampling.Blocklist | None,
    iterations: Iterations,
    number: int,
) -> tuple[PlannedEpisode, ...]:
    """Return the plan of an iteration.

    Raises:
        InvalidInputError: A task file is missing or invalid, or no task is left.
        StorageError: A bucket, or an earlier iteration, cannot be read.
    """
    env = config.env_config
    tasks = read_sources(
        _sources(env), data_path=config.data_path, storage_options=config.storage_options
    )
    # A preset's tasks have unique names; tasks of files are compared by their content.
    tasks = sampling.distinct(tasks)
    if env.split == "train":
        if blocklist is not None:
            tasks = sampling.unblocked(tasks, blocklist)
        if env.deduplicate_across_iterations:
            tasks = sampling.unseen(tasks, iterations.played(before=number))
    curriculum = env.split == "train" and env.train_tasks_sampler == "curriculum"
    sampler = sampler_of(env, last_successes(iterations, before=number) if curriculum else {})
    picked = _limited(sampler(tasks, seed=_sample_seed(config, number)), env)
    if env.group == "same-seed":
        sizes = {"attempts": env.groups_per_task, "group_size": env.attempts_per_task}
    else:
        sizes = {"attempts": env.attempts_per_task}
    return plan_tasks(picked, seed=_sample_seed(config, number), **sizes)


def plan_run(spec: RunSpec) -> tuple[PlannedEpisode, ...]:
    """Return the plan of a run: `attempts` at each task, or as many `episodes` in all.

    Raises:
        InvalidInputError: A task file is missing or invalid, or no task is left.
        StorageError: A bucket cannot be read.
        UnknownPresetError: No preset has a given name.
    """
    counts = {"attempts": spec.attempts, "seed": spec.seed, "group_size": spec.group_size}
    in_files = any(name.endswith(_TASK_FILES) for name in spec.preset)
    if spec.kind == "run" and spec.proposer is None and not in_files:
        return plan_of(spec.preset, episodes=spec.episodes, **counts)
    check_groups(spec.episodes, spec.group_size)
    # The tasks' bucket and the episodes' bucket share their options.
    tasks = read_sources(
        spec.preset,
        data_path=".",
        storage_options=spec.storage_options,
        presets=spec.proposer is None,
    )
    wanted = None if spec.episodes is None else spec.episodes // spec.group_size
    picked = list(sampling.Sequence(wanted)(sampling.distinct(tasks), seed=spec.seed))
    if spec.kind == "crawl":
        picked = [
            dataclasses.replace(task, max_steps=task.max_steps or spec.max_steps) for task in picked
        ]
    rounds = itertools.islice(itertools.cycle(picked), wanted or len(picked))
    return plan_tasks(rounds, **counts)


def read_sources(
    sources: Iterable[str],
    *,
    data_path: str,
    storage_options: Mapping[str, Any],
    presets: bool = True,
) -> Iterator[TaskSpec]:
    """Yield the tasks of files and presets.

    Args:
        sources: File names in `data_path`, absolute paths or URLs; or preset selectors.
        data_path: A folder or bucket URL.
        storage_options: For buckets.
        presets: Whether presets are accepted; none has coarse tasks.

    Raises:
        InvalidInputError: A file is missing or invalid, or a selector is malformed.
        UnknownPresetError: No preset has that name.
    """
    for source in sources:
        if presets and not source.endswith(_TASK_FILES):
            yield from specs_of_presets([source])
            continue
        place = place_of(source, data_path)
        yield from read_tasks(
            place, storage_options=storage_options or None if is_url(place) else None
        )


def sampler_of(
    env: EnvConfig, last: Mapping[str, tuple[int, int]] | None = None
) -> sampling.Sampler:
    """Return the configured sampler.

    Args:
        env: The configuration.
        last: For a curriculum: successes and attempts of each task when it was last played.
    """
    if env.split == "test":
        return sampling.Sequence(
            _size(env.test_tasks_rollout_size), repeat=max(env.test_tasks_repeat_times, 1)
        )
    size = _size(env.train_tasks_rollout_size)
    if env.train_tasks_sampler == "sequential":
        return sampling.Sequence(size)
    if env.train_tasks_sampler == "uniform":
        return sampling.UniformSampler(size)
    if env.train_tasks_sampler == "curriculum":
        return sampling.CurriculumSampler(size, last or {})
    assert size is not None  # The configuration's validator checks both.
    assert env.difficulty_ratio is not None
    bands = {
        name: sampling.Band(low=band.range[0], high=band.range[1], weight=band.weight)
        for name, band in env.difficulty_ratio.items()
    }
    return sampling.RatioSampler(size, bands)


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
            report = measure_results(iterations.results(number), by=("task",), max_groups=None)
            for name, task in report.by["task"].items():
                if task.success_rate.denominator:
                    found[name] = (task.success_rate.numerator, task.success_rate.denominator)
    return found


def digest_of(config: RolloutConfig) -> str:
    """Return a digest of everything that an iteration's plan depends on."""
    env = config.env_config
    says: tuple[object, ...]
    says = (config.seed, config.data_path, env.split, _sources(env), sampler_of(env),
            env.attempts_per_task, env.deduplicate_across_iterations, _limits_of(env),
            env.max_steps)  # fmt: skip
    if env.group != "own-seeds":  # Keeps the digest of other plans unchanged.
        says = (*says, env.group)
    if env.groups_per_task > 1:
        says = (*says, env.groups_per_task)
    return hashlib.sha256(repr(says).encode()).hexdigest()[:16]


def _sources(env: EnvConfig) -> list[str]:
    key = f"{env.split}_tasks"
    given = getattr(env, key)
    sources = [given] if isinstance(given, str) else list(given)
    if not sources or not all(sources):
        raise errors.InvalidInputError(
            f"The split {env.split!r} has no tasks; set env_config.{key} to a .jsonl or .parquet "
            "file, or to a preset such as miniwob/all."
        )
    return sources


def place_of(source: str, data_path: str) -> str:
    """Return the path or URL of a file that may be relative to a folder or bucket."""
    if is_url(source) or Path(source).is_absolute():
        return source
    if is_url(data_path):
        return f"{data_path.rstrip('/')}/{source}"
    return os.path.join(data_path, source)  # noqa: PTH118  (stays text, for messages)


def _sample_seed(config: RolloutConfig, number: int) -> int:
    """Return an iteration's seed: different for each one of `train`, the same for all of `test`."""
    return config.seed + number - 1 if config.env_config.split == "train" else config.seed


def _size(given: int) -> int | None:
    return given if given > 0 else None


def _limits_of(env: EnvConfig) -> DifficultySteps | list[int] | None:
    return env.train_difficulty_max_steps if env.split == "train" else env.test_difficulty_max_steps


def _limited(tasks: Iterable[TaskSpec], env: EnvConfig) -> list[TaskSpec]:
    """Give tasks without a step limit that of their difficulty."""
    limits = _limits_of(env)
    return [
        dataclasses.replace(task, max_steps=task.max_steps or _steps(task, limits) or env.max_steps)
        for task in tasks
    ]


def _steps(task: TaskSpec, limits: DifficultySteps | list[int] | None) -> int | None:
    if not limits or task.difficulty < 1:
        return None
    if isinstance(limits, list):
        return limits[min(task.difficulty, len(limits)) - 1]
    return int(getattr(limits, task.level))
