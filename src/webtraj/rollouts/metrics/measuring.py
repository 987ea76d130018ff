"""Measure episodes: a dataset, one of its runs, or results, in constant memory.

Each episode's record is read, counted and dropped before the next. Long bytes such as screenshots
are not read at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.rollouts.metrics.facts import EpisodeFacts, Origin, step_facts
from webtraj.rollouts.metrics.report import Measuring, MetricsReport
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.runs import Run, run_ids

if TYPE_CHECKING:
    from webtraj.datasets.dataset import Dataset
    from webtraj.store.index import EpisodeSummary
    from webtraj.store.places import Storage
    from webtraj.trajectory import EpisodeTrajectory

__all__ = [
    "measure",
    "measure_results",
    "measure_summaries",
    "measure_trajectories",
    "run_ids",
]

_EPISODES_AHEAD = 8


def measure(
    dataset: Dataset,
    *,
    run: str | None = None,
    steps: bool = True,
    plans: Storage | None = None,
    **options: Any,
) -> MetricsReport:
    """Return the metrics of a dataset's episodes, or of one of its runs.

    The tasks' difficulty and domain come from the plans of the dataset's runs.

    Args:
        dataset: The dataset, or part of one.
        run: A run's id, or "last" for the latest.
        steps: Whether to read the episodes themselves. If not, only the index is read, and metrics
            that need steps are null. An unreadable episode is listed and counts by its summary.
        plans: Storage with the runs' plans, if not the dataset's own: for a processed dataset, that
            of its source.
        options: Options of `Measuring`: `by`, `crash_rule`, `ks`, `prices`, `max_groups`.

    Raises:
        InvalidInputError: There is no such run, or an option is invalid.
        StorageError: The dataset cannot be read.
    """
    measuring = Measuring(**options)
    storage = dataset.place.storage if plans is None else plans
    known = _Plans(storage, run_ids(storage))
    about: dict[str, Any] = {"source": dataset.url}
    summaries = dataset.summaries
    if run is not None:
        chosen = known.run(run)
        summaries = [s for s in summaries if chosen.place_of(s.episode_id) is not None]
        rows = {chosen.place_of(summary.episode_id) for summary in summaries}
        about |= {
            "run": chosen.run_id,
            "planned": known.length(chosen.run_id),
            "played": len({place[0] for place in rows if place is not None}),
        }
    if steps:
        _add_records(measuring, dataset, summaries, known)
    else:
        for summary in summaries:
            measuring.add(EpisodeFacts.of_summary(summary, known.origin(summary.episode_id)))
    return measuring.report(**about)


def measure_results(
    results: Iterable[EpisodeResult],
    *,
    policy: str = "",
    seconds: float | None = None,
    **options: Any,
) -> MetricsReport:
    """Return the metrics of results, such as `RolloutSummary.results`, without their steps.

    Args:
        results: The results, every try.
        policy: The agent's name.
        seconds: Duration of the rollout.
        options: Options of `Measuring`.

    Raises:
        InvalidInputError: An option is invalid, or the crash rule needs steps.
    """
    measuring = Measuring(**options)
    for result in results:
        measuring.add(EpisodeFacts.of_result(result, policy))
    return measuring.report(wall_seconds=seconds)


def measure_summaries(summaries: Iterable[EpisodeSummary], **options: Any) -> MetricsReport:
    """Return the metrics of summaries from any source.

    Raises:
        InvalidInputError: An option is invalid, or the crash rule needs steps.
    """
    measuring = Measuring(**options)
    for summary in summaries:
        measuring.add(EpisodeFacts.of_summary(summary))
    return measuring.report()


def measure_trajectories(
    trajectories: Iterable[EpisodeTrajectory], **options: Any
) -> MetricsReport:
    """Return the metrics of episodes from any source.

    Raises:
        InvalidInputError: An option is invalid.
    """
    measuring = Measuring(**options)
    for trajectory in trajectories:
        steps = step_facts(trajectory, measuring.prices)
        measuring.add(EpisodeFacts.of_trajectory(trajectory, steps=steps))
    return measuring.report()


class _Plans:
    """The plans of a dataset's runs, each read when first needed."""

    def __init__(self, storage: Storage, known: Sequence[str]) -> None:
        self._storage = storage
        self._known = dict.fromkeys(known)
        self._rows: dict[str, list[Origin]] = {}

    def run(self, run_id: str) -> Run:
        """Return a run by its id, or the latest run for "last"."""
        if run_id == "last" and self._known:
            run_id = max(self._known)
        if run_id not in self._known:
            some = ", ".join(sorted(self._known)[-5:]) or "none"
            raise errors.InvalidInputError(
                f"No run {run_id!r:.200} in {self._storage.url!r}; its latest runs are: {some}."
            )
        return Run(self._storage, run_id)

    def length(self, run_id: str) -> int:
        """Return the number of rows in a run's plan."""
        return len(self._origins(run_id))

    def origin(self, episode_id: str) -> Origin | None:
        """Return an episode's origin; None if it belongs to no run of the dataset."""
        run_id = episode_id.rsplit("-", 2)[0]
        place = Run(self._storage, run_id).place_of(episode_id) if run_id in self._known else None
        if place is None:
            return None
        row, number = place
        origins = self._origins(run_id)
        if row >= len(origins):
            return None
        return dataclasses.replace(origins[row], number=number) if number else origins[row]

    def _origins(self, run_id: str) -> list[Origin]:
        if run_id not in self._rows:
            plan = Run(self._storage, run_id).read_plan()
            self._rows[run_id] = [Origin.of(planned, run_id, 0) for planned in plan]
        return self._rows[run_id]


def _add_records(
    measuring: Measuring, dataset: Dataset, summaries: Sequence[EpisodeSummary], plans: _Plans
) -> None:
    """Read and add episodes; those of a bucket are read ahead."""
    from webtraj.datasets.dataset import Dataset

    lazy = Dataset(dataset.place, summaries, "lazy")

    def read(summary: EpisodeSummary) -> EpisodeFacts | None:
        origin = plans.origin(summary.episode_id)
        try:
            trajectory = lazy[summary.episode_id]
            steps = step_facts(trajectory, measuring.prices)
        except errors.DatasetError:
            return None
        return EpisodeFacts.of_trajectory(trajectory, origin, steps=steps)

    read_all = dataset.place.map(read, summaries, workers=_EPISODES_AHEAD)
    for summary, facts in zip(summaries, read_all, strict=True):
        if facts is None:
            facts = EpisodeFacts.of_summary(summary, plans.origin(summary.episode_id))
            measuring.add_unreadable(facts)
        else:
            measuring.add(facts)
