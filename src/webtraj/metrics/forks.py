"""The values of a recorded episode's steps, measured by the episodes forked at each step.

The value of step k is the success rate of the forks at k, with its interval. The step that lost an
episode is the one with the largest drop in value, if any.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj.metrics.rates import Rate, success_rate
from webtraj.runs.run import EpisodeResult, Run, run_ids, tries_of
from webtraj.store.tries import pick_counting

if TYPE_CHECKING:
    from webtraj.store.index import EpisodeSummary
    from webtraj.store.storage import Storage

__all__ = ["StepValue", "find_loss", "forks_data", "last_good", "most_open", "step_values"]


@dataclasses.dataclass(frozen=True, slots=True)
class StepValue:
    """The results of the forks at one step of an episode."""

    step: int
    """The number of recorded actions that the forks repeat."""
    success: Rate
    """The success rate of the forks that count."""
    not_counted: int = 0
    """The number of forks that ended in an infrastructure failure or left the record."""
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
    """Return the values of each forked episode's steps, in order, by the episode's id.

    Args:
        storage: The dataset with the forks. Their parents may be in another one.
        summaries: The dataset's episodes.

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
        for result in pick_counting(tries):
            point = plan[result.row].fork
            if point is not None:
                found.setdefault((point.episode_id, point.step), []).append(result)
    values: dict[str, list[StepValue]] = {}
    for (episode_id, step), results in sorted(found.items()):
        values.setdefault(episode_id, []).append(_value(step, results))
    return {episode_id: tuple(steps) for episode_id, steps in values.items()}


def _value(step: int, results: Sequence[EpisodeResult]) -> StepValue:
    graded = [result for result in results if result.counts]
    return StepValue(
        step=step,
        success=success_rate(collections.Counter(result.outcome for result in graded)),
        not_counted=len(results) - len(graded),
        episodes=tuple(result.episode_id for result in results),
    )


def find_loss(values: Sequence[StepValue]) -> int | None:
    """Return the step whose action lowered the value most; None if no action did.

    >>> one = [StepValue(0, Rate(4, 4)), StepValue(1, Rate(4, 4)), StepValue(2, Rate(1, 4))]
    >>> find_loss(one), find_loss(one[:2])
    (2, None)

    Args:
        values: The values of an episode's steps, in order. The action of step k leads from the
            value at k - 1 to that at k; steps without a value are skipped.
    """
    fall = _fall(values)
    return None if fall is None else fall[1]


def last_good(values: Sequence[StepValue]) -> int | None:
    """Return the last step before the action of `find_loss`, at which a repair begins.

    >>> last_good([StepValue(0, Rate(4, 4)), StepValue(3, Rate(1, 4)), StepValue(4, Rate(1, 4))])
    0
    """
    fall = _fall(values)
    return None if fall is None else fall[0]


def most_open(values: Sequence[StepValue]) -> int | None:
    """Return the step at which the outcomes of forks differ most; None if they never differ.

    This is the first step whose value is nearest to one half.

    >>> most_open([StepValue(0, Rate(4, 4)), StepValue(1, Rate(3, 4)), StepValue(2, Rate(1, 4))])
    1
    """
    rates = [(value.success.value, value.step) for value in values]
    spreads = [(rate * (1 - rate), -step) for rate, step in rates if rate is not None]
    spread, step = max(spreads, default=(0.0, 0))
    return -step if spread > 0 else None


def _fall(values: Sequence[StepValue]) -> tuple[int, int] | None:
    """Return the neighbouring steps between which the value falls most; None if it never falls."""
    known = [(value.success.value, value.step) for value in values]
    rates = [(rate, step) for rate, step in known if rate is not None]
    falls = [
        (before - after, -step, start)
        for (before, start), (after, step) in itertools.pairwise(rates)
    ]
    fall, step, start = max(falls, default=(0.0, 0, 0))
    return (start, -step) if fall > 0 else None


def forks_data(
    episode_id: str, parent: str, values: Mapping[str, Sequence[StepValue]]
) -> dict[str, Any] | None:
    """Return an episode's forks and its origin as JSON data; None if it has neither.

    ::

        {"values": [...],    # From `StepValue.to_data`, for each forked step.
         "lost_at": 3,       # The step that lost the episode, or null.
         "of": {"parent": "...", "step": 2}, "siblings": ["..."]}    # Only of a fork.

    Args:
        episode_id: The episode.
        parent: The id of the episode that it was forked from; empty if none.
        values: From `step_values`.
    """
    own = values.get(episode_id, ())
    of = next((value for value in values.get(parent, ()) if episode_id in value.episodes), None)
    if not own and of is None:
        return None
    data: dict[str, Any] = {"values": [value.to_data() for value in own], "lost_at": find_loss(own)}
    if of is not None:
        data["of"] = {"parent": parent, "step": of.step}
        data["siblings"] = [one for one in of.episodes if one != episode_id]
    return data
