"""A report in numbers on a replay buffer or a selection, and on what was left out and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from webtraj.training.replay.filters import EPISODE_REASONS, Reason
from webtraj.training.replay.weights import LEVELS, effective_sample_size
from webtraj.trajectory import Outcome

if TYPE_CHECKING:
    from webtraj.training.replay.selection import Selection

__all__ = ["ReplayReport", "report_on"]

_FRACTIONS = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)
_UNKNOWN = "-"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """A report on a selection and on what its buffer left out."""

    episodes_read: int
    """Episodes that were read."""
    steps_read: int
    """Their actions."""
    samples: int
    """Samples in the selection; repeated ones count each time."""
    distinct_samples: int
    episodes: int
    """Episodes of the samples."""
    dropped_episodes: Mapping[str, Mapping[str, int]]
    """Whole episodes left out, by reason and task."""
    dropped_steps: Mapping[str, Mapping[str, int]]
    """Single steps left out, by reason and task."""
    tasks: Mapping[str, int]
    """Samples by task."""
    sites: Mapping[str, int]
    levels: Mapping[str, int]
    """Samples by the task's difficulty."""
    outcomes: Mapping[str, int]
    actions: Mapping[str, int]
    """Samples by the action's verb."""
    iterations: Mapping[int, int]
    policy_ages: Mapping[int, int]
    """Samples by age in iterations: 0 for the latest."""
    policy_versions: Mapping[str, int]
    """Samples by the weights that sampled them; `-` if unknown."""
    prompt_tokens: Mapping[str, float]
    """Percentiles of the prompts' lengths: p0, p50, p90, ..."""
    completion_tokens: Mapping[str, float]
    estimated_tokens: int
    """Samples without recorded token ids, whose length is estimated."""
    rendered: int
    """Samples rendered afterwards, without a model call."""
    positive: int
    """Samples with a loss weight above 0."""
    effective_sample_size: float
    """The effective number of samples under the loss weights."""
    success_rates: Mapping[str, tuple[int, int]]
    """Successes and graded episodes of each task that was read."""
    solved_tasks: int
    """Tasks with at least one success: an upper bound on what the data can teach."""
    problems: tuple[str, ...]
    """The errors of the first episodes that could not be read."""

    def to_data(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        data = dataclasses.asdict(self)
        for name in ("iterations", "policy_ages"):
            data[name] = {str(number): count for number, count in data[name].items()}
        return data

    def rows(self) -> list[tuple[str, str]]:
        """Return rows of label and value for a table."""
        return [
            ("episodes read", f"{self.episodes_read:,}"),
            ("steps read", f"{self.steps_read:,}"),
            *_dropped_rows(self.dropped_episodes, "episodes"),
            *_dropped_rows(self.dropped_steps, "steps"),
            ("samples", f"{self.samples:,} of {self.episodes:,} episodes"),
            ("distinct samples", f"{self.distinct_samples:,}"),
            ("with a loss weight", f"{self.positive:,}"),
            ("effective sample size", f"{self.effective_sample_size:,.1f}"),
            ("tasks", f"{len(self.tasks):,}; {self.solved_tasks:,} ever solved"),
            ("sites", f"{len(self.sites):,}"),
            ("iterations", _counts(self.iterations)),
            ("actions", _counts(self.actions)),
            ("prompt tokens", _percentiles(self.prompt_tokens)),
            ("completion tokens", _percentiles(self.completion_tokens)),
            ("estimated tokens", f"{self.estimated_tokens:,} samples"),
            ("rendered afterwards", f"{self.rendered:,} samples"),
            *(("cannot be read", problem) for problem in self.problems),
        ]


def report_on(selection: Selection) -> ReplayReport:
    """Return the report on a selection and its buffer."""
    contents, view, records = selection.buffer.contents, selection.view, selection.records
    newest = max(contents.iterations, default=0)
    ranks = {number: age for age, number in enumerate(reversed(contents.iterations))}
    iterations = {int(n): count for n, count in _tally(view.iteration).items()}
    return ReplayReport(
        episodes_read=contents.num_episodes,
        steps_read=contents.num_steps,
        samples=len(selection),
        distinct_samples=len(np.unique(selection.rows)),
        episodes=len(selection.episode_ids),
        dropped_episodes=_dropped(contents.dropped, episodes=True),
        dropped_steps=_dropped(contents.dropped, episodes=False),
        tasks=_named(view.task, view.tasks),
        sites=_named(view.site, view.sites),
        levels=_named(view.level, LEVELS),
        outcomes={Outcome(int(n)).name.lower(): count for n, count in _tally(view.outcome).items()},
        actions=_named(records["verb"], contents.verbs),
        iterations=iterations,
        policy_ages={ranks.get(n, newest): count for n, count in reversed(iterations.items())},
        policy_versions=_named(view.version, view.versions),
        prompt_tokens=_fractions(records["prompt_tokens"]),
        completion_tokens=_fractions(records["completion_tokens"]),
        estimated_tokens=int(np.sum(~records["counted"])),
        rendered=int(np.sum(~records["recorded"])),
        positive=int(np.sum(selection.loss_weights > 0.0)),
        effective_sample_size=effective_sample_size(selection.loss_weights),
        success_rates=contents.graded,
        solved_tasks=sum(successes > 0 for successes, _ in contents.graded.values()),
        problems=contents.problems,
    )


def _dropped(
    dropped: Mapping[tuple[Reason, str], int], *, episodes: bool
) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for reason in Reason:
        if (reason in EPISODE_REASONS) is episodes:
            by_task = {task: n for (why, task), n in dropped.items() if why is reason and n}
            if by_task:
                found[reason.value] = by_task
    return found


def _tally(numbers: NDArray[Any]) -> dict[int, int]:
    values, counts = np.unique(numbers, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _named(numbers: NDArray[Any], names: Sequence[str]) -> dict[str, int]:
    named = {names[number] or _UNKNOWN: count for number, count in _tally(numbers).items()}
    return dict(sorted(named.items(), key=lambda item: (-item[1], item[0])))


def _fractions(lengths: NDArray[Any]) -> dict[str, float]:
    if not len(lengths):
        return {}
    values = np.quantile(lengths, _FRACTIONS, method="higher").tolist()
    return {f"p{100 * f:g}": float(value) for f, value in zip(_FRACTIONS, values, strict=True)}


def _dropped_rows(dropped: Mapping[str, Mapping[str, int]], what: str) -> list[tuple[str, str]]:
    return [
        (f"- {reason}", f"{sum(by_task.values()):,} {what} of {len(by_task):,} tasks")
        for reason, by_task in dropped.items()
    ]


def _counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in counts.items()) or _UNKNOWN


def _percentiles(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:,.0f}" for name, value in values.items()) or _UNKNOWN
