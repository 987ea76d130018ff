"""The value of a recorded episode's steps: how often agents succeed that go on from there.

The value of step k is the success rate of the episodes that were forked at k, with its interval.
The step that lost an episode is the one across which the value falls most, if it falls.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from webtraj.metrics.rates import Rate, success_rate
from webtraj.runs.run import EpisodeResult, Run, run_ids, tries_of
from webtraj.store.tries import counting

if TYPE_CHECKING:
    from webtraj.store.index import EpisodeSummary
    from webtraj.store.places import Storage

__all__ = ["StepValue", "lost_at", "step_values"]


@dataclasses.dataclass(frozen=True, slots=True)
class StepValue:
    """What came of the forks at one step of an episode."""

    step: int
    """The number of recorded actions that the forks repeat."""
    success: Rate
    """The successes of the forks that count."""
    not_counted: int = 0
    """The forks that failed for the machinery, or departed from the record."""
    episodes: tuple[str, ...] = ()
    """The ids of the forks on record."""

    def to_data(self) -> dict[str, Any]:
        """Return JSON data."""
        return {
            "step": self.step,
            "success": self.success.to_data(),
            "not_counted": self.not_counted,
            "episodes": list(self.episodes),
        }


def step_values(
    storage: Storage, summaries: Iterable[EpisodeSummary]
) -> dict[str, tuple[StepValue, ...]]:
    """Return the values of the steps of every forked episode, by its id, in the order of the steps.

    Args:
        storage: The dataset with the forks. Their parents may be in another.
        summaries: Its episodes.

    Raises:
        InvalidInputError: A plan cannot be read.
        StorageError: Likewise.
    """
    summaries = list(summaries)
    found: dict[tuple[str, int], list[EpisodeResult]] = {}
    for run_id in run_ids(storage):
        run = Run(storage, run_id)
        plan = run.read_plan()
        if not any(planned.fork for planned in plan):
            continue
        tries = (
            EpisodeResult.of_summary(summary, planned, number)
            for planned, number, summary in tries_of(run, plan, summaries)
        )
        for result in counting(tries):
            point = plan[result.row].fork
            if point is not None:
                found.setdefault((point.episode_id, point.step), []).append(result)
    values: dict[str, list[StepValue]] = {}
    for (episode_id, step), results in sorted(found.items()):
        values.setdefault(episode_id, []).append(_value(step, results))
    return {episode_id: tuple(steps) for episode_id, steps in values.items()}


def _value(step: int, results: Sequence[EpisodeResult]) -> StepValue:
    graded = [result for result in results if result.counts]
    outcomes = {result.outcome: 0 for result in graded}
    for result in graded:
        outcomes[result.outcome] += 1
    return StepValue(
        step=step,
        success=success_rate(outcomes),
        not_counted=len(results) - len(graded),
        episodes=tuple(result.episode_id for result in results),
    )


def lost_at(values: Sequence[StepValue]) -> int | None:
    """Return the step whose action lowered the value most; None if none did.

    >>> one = [StepValue(0, Rate(4, 4)), StepValue(1, Rate(4, 4)), StepValue(2, Rate(1, 4))]
    >>> lost_at(one), lost_at(one[:2])
    (2, None)

    Args:
        values: The values of an episode's steps, in order. The action of step k leads from the
            value at k - 1 to that at k; steps without a value are passed over.
    """
    known = [value for value in values if value.success.value is not None]
    falls = [
        ((before.success.value or 0.0) - (after.success.value or 0.0), after.step)
        for before, after in itertools.pairwise(known)
    ]
    fall, step = max(falls, default=(0.0, 0), key=lambda pair: (pair[0], -pair[1]))
    return step if fall > 0 else None
