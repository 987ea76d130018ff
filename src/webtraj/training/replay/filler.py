"""Fill a replay buffer: read datasets into tables, in one pass over the episodes."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.place import DatasetPlace, Place, open_place
from webtraj.runs.iterations import Iterations
from webtraj.store.index import EpisodeSummary
from webtraj.training.replay.cutter import Renderer
from webtraj.training.replay.filters import Filters, HeldOut, Reason
from webtraj.training.replay.scanner import Batch, EpisodeScan, Scanner, scan_batches, unit_digest
from webtraj.training.replay.weights import EPISODES, LEVELS, STEPS, Growing, Names, View, rank
from webtraj.trajectory import group_of, has_succeeded

__all__ = ["Contents", "Places", "Source", "fill", "open_sources"]

# Sources of a replay buffer: datasets, each of one iteration.

Places = Place | Sequence[Place] | Mapping[int, Place] | Iterations
"""One dataset, several that followed each other, datasets by iteration, or a rollout's iterations.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """One dataset."""

    iteration: int
    """The iteration, from 1; 0 if there is none."""
    place: DatasetPlace

    def open(self) -> Dataset:
        """Open the dataset. Its index takes far more memory than a buffer's rows."""
        dataset = Dataset(self.place, (), "lazy")
        return dataset.refresh(complete=True)


def open_sources(
    places: Places,
    *,
    last_n_iterations: int | None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Source]:
    """Open the datasets of the last iterations, oldest first.

    Iterations that were abandoned before their first episode do not count.

    Raises:
        NotADatasetError: A named place is not a dataset.
        InvalidInputError: There is no dataset, or `last_n_iterations` is below 1.
        StorageError: A dataset cannot be read.
    """
    if last_n_iterations is not None and (
        isinstance(last_n_iterations, bool) or last_n_iterations < 1
    ):
        raise errors.InvalidInputError(
            f"last_n_iterations is {last_n_iterations!r:.100}; expected a number above 0, or None."
        )
    if isinstance(places, Iterations):
        options = places.storage_options if storage_options is None else storage_options
        numbered: dict[int, Place] = {number: places.dataset(number) for number in places.numbers()}
        where, claimed_only = places.place, True
    else:
        options, where, claimed_only = storage_options, "", False
        numbered = _number_places(places)
    found: list[Source] = []
    for number in sorted(numbered, reverse=True):
        if last_n_iterations is not None and len(found) == last_n_iterations:
            break
        try:
            found.append(Source(number, open_place(numbered[number], options)))
        except errors.NotADatasetError:
            if claimed_only:
                continue
            raise
    if not found:
        raise errors.InvalidInputError(
            f"No dataset to train on{f' in {where!r}' if where else ''}. Name datasets, "
            "or the save_path of a rollout with recorded episodes. `webtraj import` makes datasets "
            "of files of WebGym and other systems."
        )
    return found[::-1]


def _number_places(places: Any) -> dict[int, Place]:
    if isinstance(places, (str, os.PathLike)):
        return {0: places}
    if isinstance(places, Mapping):
        if not all(type(number) is int and number >= 0 for number in places):
            raise errors.InvalidInputError(
                f"Expected iteration numbers as keys of the datasets; got {list(places)!r:.100}."
            )
        return dict(places)
    return dict(enumerate(places, start=1))


_MOST_PROBLEMS = 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of a replay buffer."""

    steps: NDArray[Any]
    """A row of `columns.STEPS` for each sample, in recorded order."""
    episodes: NDArray[Any]
    """A row of `columns.EPISODES` for each episode that has samples."""
    episode_ids: tuple[str, ...]
    """The ids of these episodes."""
    recorded_ids: tuple[str, ...]
    """For each, the id of the episode that it was relabelled from, or its own."""
    forks: tuple[tuple[str, int], ...]
    """For each, the id of the episode that it forks, and the step; empty if it is not a fork."""
    sources: tuple[Source, ...]
    filters: Filters
    held_out: HeldOut
    tasks: tuple[str, ...]
    sites: tuple[str, ...]
    verbs: tuple[str, ...]
    versions: tuple[str, ...]
    formats: tuple[str, ...]
    groups: tuple[str, ...]
    """The ids of the groups; empty text for episodes that are compared by task and policy."""
    group_sum: NDArray[np.float64]
    """The sum of rewards of each group's graded episodes."""
    group_count: NDArray[np.int64]
    """The number of each group's graded episodes."""
    group_solved: NDArray[np.bool_]
    """Whether any episode of each group succeeded."""
    num_episodes: int
    """Episodes that were read."""
    num_steps: int
    """Their actions, as counted by the index."""
    dropped: dict[tuple[Reason, str], int]
    """Episodes or steps left out, by reason and task."""
    graded: dict[str, tuple[int, int]]
    """Successes and graded episodes of each task, as `webtraj.metrics.rates` counts them."""
    problems: tuple[str, ...]
    """The errors of the first episodes that could not be read."""

    def count_dropped(self) -> dict[Reason, int]:
        """Return the number of episodes or steps left out, by reason."""
        found: collections.Counter[Reason] = collections.Counter()
        for (reason, _), count in self.dropped.items():
            found[reason] += count
        return {reason: found[reason] for reason in Reason if found[reason]}

    @functools.cached_property
    def iterations(self) -> tuple[int, ...]:
        """The numbers of the iterations, in order."""
        return tuple(sorted({source.iteration for source in self.sources}))

    def view(self, rows: NDArray[np.int64]) -> View:
        """Return rows of `steps` as input of weightings."""
        steps = self.steps[rows]
        episodes = self.episodes[steps["episode"]]
        counts = self.group_count[episodes["group"]]
        means = self.group_sum[episodes["group"]] / np.maximum(counts, 1)
        integers = functools.partial(np.asarray, dtype=np.int64)
        return View(
            episode=integers(steps["episode"]),
            step=integers(steps["step"]),
            iteration=integers(episodes["iteration"]),
            task=integers(episodes["task"]),
            site=integers(episodes["site"]),
            level=integers(episodes["level"]),
            outcome=integers(episodes["outcome"]),
            reward=episodes["reward"],
            advantage=np.where(
                counts > 1,
                np.where(self.group_solved[episodes["group"]], episodes["reward"] - means, 0.0),
                np.nan,
            )
            + 0.0 * episodes["reward"],  # NaN if the reward is unknown.
            tokens=integers(steps["prompt_tokens"]) + steps["completion_tokens"],
            version=integers(steps["version"]),
            tasks=self.tasks,
            sites=self.sites,
            versions=self.versions,
            iterations=self.iterations,
        )


def fill(
    sources: Iterable[Source],
    filters: Filters,
    *,
    held_out: HeldOut,
    render: Renderer | None,
    seed: int,
) -> Contents:
    """Read datasets through filters into a buffer's contents.

    Raises:
        LeakError: Held-out tasks or sites are in the data.
        StorageError: A bucket cannot be read.
    """
    filling = _Filling(filters, held_out)
    opened = (filling.drop_superseded(source.open()) for source in map(filling.begin, sources))
    with contextlib.closing(scan_batches(Scanner(filters, render), opened)) as batches:
        for batch in batches:
            filling.add(batch)
    return filling.finish(seed)


class _Filling:
    def __init__(self, filters: Filters, held_out: HeldOut) -> None:
        self._filters = filters
        self._held_out = held_out
        self._steps, self._episodes = Growing(STEPS), Growing(EPISODES)
        self._ids: list[str] = []
        self._recorded_ids: list[str] = []
        self._forks: list[tuple[str, int]] = []
        self._sources: list[Source] = []
        self._tasks, self._sites, self._groups = Names(), Names(), Names()
        self._verbs, self._versions, self._formats = Names(), Names(), Names()
        self._group_ids: list[str] = []
        self._rewards: list[list[tuple[float, bool]]] = []
        self._dropped: collections.Counter[tuple[Reason, str]] = collections.Counter()
        self._graded: dict[str, tuple[int, int]] = {}
        self._leaks: collections.Counter[str] = collections.Counter()
        self._problems: list[str] = []
        self._num_episodes = self._num_steps = 0

    def begin(self, source: Source) -> Source:
        """Start a dataset, and return it."""
        self._sources.append(source)
        return source

    def drop_superseded(self, dataset: Dataset) -> Dataset:
        """Return the dataset's episodes that count, and count the others as left out."""
        for summary in dataset.summaries:
            if summary.episode_id in dataset.superseded:
                self._num_episodes += 1
                self._num_steps += summary.num_steps
                self._drop(Reason.SUPERSEDED, summary.task)
        return dataset.counting

    def add(self, batch: Batch) -> None:
        """Add episodes of the current dataset."""
        rows = batch.rows
        numbers = np.array(
            [self._number(*pair) for pair in zip(batch.summaries, batch.scans, strict=True)], "<i4"
        )
        rows["episode"] = numbers[rows["episode"]]
        rows = rows[rows["episode"] >= 0]
        rows["verb"] = self._verbs.renumber(rows["verb"], batch.verbs)
        rows["version"] = self._versions.renumber(rows["version"], batch.versions)
        self._steps.extend(rows)

    def _number(self, summary: EpisodeSummary, scan: EpisodeScan) -> int:
        """Count an episode and return its number; -1 if it gives no samples."""
        self._num_episodes += 1
        self._num_steps += summary.num_steps
        if scan.dropped in (Reason.WHERE, Reason.UNREADABLE):
            self._drop(scan.dropped, summary.task)
            if scan.detail and len(self._problems) < _MOST_PROBLEMS:
                self._problems.append(scan.detail)
            return -1
        tasks = dict.fromkeys(filter(None, (summary.task, scan.source[1])))
        if any(self._held_out.has(task, scan.site) for task in tasks):
            self._drop(Reason.HELD_OUT, summary.task)
            self._leaks[summary.task] += bool(scan.samples)
            return -1
        group = self._grade(summary, scan)
        if scan.dropped is not None:
            self._drop(scan.dropped, summary.task)
            return -1
        for reason, count in scan.reasons.items():
            self._drop(reason, summary.task, count)
        return self._keep(summary, scan, group) if scan.samples else -1

    def _drop(self, reason: Reason, task: str, count: int = 1) -> None:
        self._dropped[reason, task] += count

    def _drop_each(self, reason: Reason, tasks: NDArray[Any]) -> None:
        names = tuple(self._tasks)
        for task, count in zip(*np.unique(tasks, return_counts=True), strict=True):
            self._drop(reason, names[task], int(count))

    def _grade(self, summary: EpisodeSummary, scan: EpisodeScan) -> int:
        """Count an episode for its task and group, and return the group's index."""
        iteration = self._sources[-1].iteration
        # Attempts in another iteration came from other weights.
        shared = group_of(summary.group_id, summary.policy, summary.task)
        group = self._groups.number(f"{iteration}\0{shared}")
        if group == len(self._rewards):
            self._rewards.append([])
            self._group_ids.append(summary.group_id)
        success = has_succeeded(summary.outcome, summary.end_reason)
        if scan.reward is not None:
            self._rewards[group].append((scan.reward, bool(success)))
        if success is not None:  # An agent's own error has no reward, but is its failure.
            successes, graded = self._graded.get(summary.task, (0, 0))
            self._graded[summary.task] = (successes + success, graded + 1)
        return group

    def _keep(self, summary: EpisodeSummary, scan: EpisodeScan, group: int) -> int:
        number = len(self._ids)
        self._ids.append(summary.episode_id)
        self._recorded_ids.append(scan.source[0] or summary.episode_id)
        self._forks.append(scan.fork)
        row = (
            len(self._sources) - 1,
            self._sources[-1].iteration,
            self._tasks.number(summary.task),
            self._sites.number(scan.site),
            group,
            LEVELS.index(scan.level),
            int(summary.outcome),
            self._formats.number(summary.format),
            np.nan if scan.reward is None else scan.reward,
            unit_digest(summary.episode_id),
            bytes.fromhex(summary.sha256),
        )
        self._episodes.extend([row])
        return number

    def finish(self, seed: int) -> Contents:
        """Apply the filters that need all episodes, and return the contents.

        Raises:
            LeakError: Held-out tasks or sites are in the data.
        """
        leaks = {task: count for task, count in sorted(self._leaks.items()) if count}
        if leaks and self._held_out.on_leak == "error":
            raise self._held_out.refuse(leaks)
        steps, episodes = self._steps.take(), self._episodes.take()
        steps = self._in_band(steps, episodes)
        if self._filters.distinct:
            rewards = np.nan_to_num(episodes["reward"][steps["episode"]], nan=-np.inf)
            keep = _best(steps["sample"], rewards)
            steps = self._drop_steps(steps, keep, episodes, Reason.DUPLICATE)
        for name, cap, reason in (
            ("task", self._filters.max_per_task, Reason.TASK_CAP),
            ("site", self._filters.max_per_site, Reason.SITE_CAP),
        ):
            if cap is not None:
                steps = self._cap(steps, episodes, name, cap, reason, seed)
        return self._contents(steps, episodes)

    def _in_band(self, steps: NDArray[Any], episodes: NDArray[Any]) -> NDArray[Any]:
        if self._filters.success_band is None:
            return steps
        low, high = self._filters.success_band
        rates = [
            successes / graded if graded else np.nan
            for task in self._tasks
            for successes, graded in [self._graded.get(task, (0, 0))]
        ]
        inside = np.array([low <= rate <= high for rate in rates], bool)
        self._drop_each(Reason.TOO_EASY_OR_HARD, episodes["task"][~inside[episodes["task"]]])
        left: NDArray[Any] = steps[inside[episodes["task"][steps["episode"]]]]
        return left

    def _cap(
        self,
        steps: NDArray[Any],
        episodes: NDArray[Any],
        name: str,
        cap: int,
        reason: Reason,
        seed: int,
    ) -> NDArray[Any]:
        groups = episodes[name][steps["episode"]].astype(np.int64)
        keys = np.ascontiguousarray(steps["sample"]).view("<u8")[::2]
        keep = rank(groups, keys, seed=seed) < cap
        if name == "site" and "" in self._sites:
            keep |= groups == self._sites.number("")
        return self._drop_steps(steps, keep, episodes, reason)

    def _drop_steps(
        self, steps: NDArray[Any], keep: NDArray[np.bool_], episodes: NDArray[Any], reason: Reason
    ) -> NDArray[Any]:
        if keep.all():
            return steps
        self._drop_each(reason, episodes["task"][steps["episode"][~keep]])
        left: NDArray[Any] = steps[keep]
        return left

    def _contents(self, steps: NDArray[Any], episodes: NDArray[Any]) -> Contents:
        kept, numbers = np.unique(steps["episode"], return_inverse=True)
        steps["episode"] = numbers.reshape(-1)
        return Contents(
            steps=steps,
            episodes=episodes[kept],
            episode_ids=tuple(self._ids[number] for number in kept),
            recorded_ids=tuple(self._recorded_ids[number] for number in kept),
            forks=tuple(self._forks[number] for number in kept),
            sources=tuple(self._sources),
            filters=self._filters,
            held_out=self._held_out,
            tasks=tuple(self._tasks),
            sites=tuple(self._sites),
            verbs=tuple(self._verbs),
            versions=tuple(self._versions),
            formats=tuple(self._formats),
            groups=tuple(self._group_ids),
            group_sum=np.array([sum(reward for reward, _ in each) for each in self._rewards]),
            group_count=np.array(list(map(len, self._rewards)), np.int64),
            group_solved=np.array([any(won for _, won in each) for each in self._rewards], bool),
            num_episodes=self._num_episodes,
            num_steps=self._num_steps,
            dropped=dict(sorted(self._dropped.items())),
            graded=dict(sorted(self._graded.items())),
            problems=tuple(self._problems),
        )


def _best(digests: NDArray[Any], rewards: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of one row for each digest: of the rows with the highest reward, the latest."""
    keep = np.zeros(len(digests), np.bool_)
    halves = np.ascontiguousarray(digests).view("<u8").reshape(-1, 2)
    # Sorting is stable: among equals of the same reward, the latest is last.
    order = np.lexsort((rewards, halves[:, 1], halves[:, 0]))
    last = np.ones(len(digests), np.bool_)
    last[:-1] = False
    for half in halves.T:
        ordered = half[order]
        last[:-1] |= ordered[1:] != ordered[:-1]
    keep[order[last]] = True
    return keep
