"""The replay buffer: samples of many episodes, held as tables and loaded lazily; and its report.

from_datasets   reads each episode once, and keeps a row for each usable decision
sample          draws rows by weight
Selection       loads the samples of rows, one episode at a time

No trajectory is kept in memory. `report` counts what was left out, by reason and task.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import webtraj
from webtraj import errors
from webtraj.training.replay.cutting import Renderer
from webtraj.training.replay.filling import Contents, Places, fill, open_sources
from webtraj.training.replay.filters import EPISODE_REASONS, Filters, HeldOut, Reason
from webtraj.training.replay.selection import Selection
from webtraj.training.replay.weights import (
    LEVELS,
    View,
    Weighting,
    by_reward,
    checked,
    draw,
    effective_sample_size,
    mixed,
    quotas,
    recency,
    uniform,
)
from webtraj.trajectory import Outcome

__all__ = ["ReplayBuffer", "ReplayReport"]


class ReplayBuffer:
    """An immutable buffer of samples, made by `from_datasets`.

    Attributes:
        contents: Tables of numbers, names, and counts of what was left out.
    """

    def __init__(
        self,
        contents: Contents,
        *,
        seed: int = 0,
        loss_weights: Weighting = by_reward,
        render: Renderer | None = None,
    ) -> None:
        self.contents = contents
        self.seed = seed
        self.render = render
        rows = contents.steps
        places = rows["step"].astype(np.uint64) << np.uint64(16) | rows["call"].astype(np.uint64)
        episodes = contents.episodes["hash"][rows["episode"]]
        self._keys = mixed(episodes ^ mixed(places, 0), 0)
        self._loss_weights = checked(loss_weights, self.view)

    @classmethod
    def from_datasets(
        cls,
        places: Places,
        *,
        last_n_iterations: int | None = 4,
        filters: Filters | None = None,
        held_out: HeldOut | None = None,
        loss_weights: Weighting = by_reward,
        render: Renderer | None = None,
        seed: int = 0,
        storage_options: Mapping[str, Any] | None = None,
    ) -> ReplayBuffer:
        """Read datasets into a buffer, each episode once, with a few in memory at a time.

        Args:
            places: A dataset's folder or URL; several, oldest first, as iterations 1, 2, ...;
                datasets by iteration number; or a rollout's `Iterations`.
            last_n_iterations: The number of latest iterations to use; None for all.
            filters: What to let in; by default `Filters()`.
            held_out: Tasks and sites that must not be in it.
            loss_weights: The loss weight of each sample; by default its reward, so failures
                count 0. `weights.uniform` weighs all alike, ungraded ones too.
            render: Makes samples from decisions without a model call.
            seed: Seed of all draws.
            storage_options: Options for buckets: see `webtraj.store.bucket.BucketStorage`.

        Raises:
            LeakError: Held-out tasks or sites are in the data.
            NotADatasetError: There is no dataset.
            InvalidInputError: The places or settings are wrong.
            StorageError: A bucket cannot be read.
        """
        sources = open_sources(
            places, last_n_iterations=last_n_iterations, storage_options=storage_options
        )
        contents = fill(
            sources,
            filters or Filters(),
            held_out=held_out.read(storage_options) if held_out is not None else HeldOut(),
            render=render,
            seed=seed,
        )
        return cls(contents, seed=seed, loss_weights=loss_weights, render=render)

    def __len__(self) -> int:
        return len(self.contents.steps)

    def __repr__(self) -> str:
        return f"<ReplayBuffer: {len(self)} samples of {len(self.contents.episodes)} episodes>"

    @functools.cached_property
    def view(self) -> View:
        """All samples as input of weightings."""
        return self.contents.view(np.arange(len(self)))

    @property
    def all(self) -> Selection:
        """All samples, each once, in recorded order."""
        return self.select(np.arange(len(self)), {"how": "all"})

    def select(self, rows: NDArray[np.int64], how: Mapping[str, Any] | None = None) -> Selection:
        """Return the samples of given rows.

        Args:
            rows: Indices into `view`'s arrays, possibly repeated.
            how: Provenance of the choice, as plain data.
        """
        rows = np.asarray(rows, np.int64)
        return Selection(self, rows, self._loss_weights[rows], dict(how or {"how": "by hand"}))

    def sample(
        self,
        num_samples: int,
        weights: Weighting = uniform,
        *,
        seed: int | None = None,
        replacement: bool = False,
    ) -> Selection:
        """Draw samples by weight.

        Args:
            num_samples: The number to draw. Without replacement, at most all with a weight.
            weights: The weighting; see `webtraj.training.replay.weights`.
            seed: Seed of the draw; None for the buffer's.
            replacement: Whether a sample may be drawn several times.

        Raises:
            InvalidInputError: There is nothing to draw from, or a weight is invalid.
        """
        seed = self.seed if seed is None else seed
        found = draw(
            checked(weights, self.view),
            self._keys,
            num_samples,
            seed=seed,
            replacement=replacement,
        )
        how = {"how": "sample", "weights": _name(weights), "num_samples": num_samples}
        return self.select(found, {**how, "seed": seed, "replacement": replacement})

    def sample_with_recency(
        self,
        num_samples: int,
        recency_bias_power: float = 2.0,
        *,
        seed: int | None = None,
        replacement: bool = False,
    ) -> Selection:
        """Draw samples, favouring later iterations.

        A sample of the i-th oldest iteration has the weight i to the power: at power 2, four equal
        iterations get 3, 13, 30 and 53 % of the draw. The draw meets these shares exactly, up to
        whole samples; if an iteration has too few, the others get the rest.

        Args:
            num_samples: The number to draw. Without replacement, at most all.
            recency_bias_power: The power; 0 treats all iterations alike.
            seed: Seed of the draw; None for the buffer's.
            replacement: Whether a sample may be drawn several times.

        Raises:
            InvalidInputError: There is nothing to draw from, or the power is invalid.
        """
        seed = self.seed if seed is None else seed
        view = self.view
        weights = checked(recency(recency_bias_power), view)
        if len(view) == 0 or isinstance(num_samples, bool) or num_samples < 0:
            draw(weights, self._keys, num_samples, seed=seed, replacement=replacement)
        iterations, parts, sizes = np.unique(
            view.iteration, return_inverse=True, return_counts=True
        )
        shares = np.bincount(parts.reshape(-1), weights=weights, minlength=len(iterations))
        counts = quotas(shares.astype(np.float64), None if replacement else sizes, num_samples)
        found = [
            rows[
                draw(
                    np.ones(len(rows)),
                    self._keys[rows],
                    int(count),
                    seed=seed,
                    replacement=replacement,
                )
            ]
            for part, count in enumerate(counts)
            for rows in [np.flatnonzero(parts.reshape(-1) == part)]
        ]
        how = {
            "how": "sample_with_recency",
            "num_samples": num_samples,
            "recency_bias_power": recency_bias_power,
            "seed": seed,
            "replacement": replacement,
        }
        return self.select(np.sort(np.concatenate(found or [np.zeros(0, np.int64)])), how)

    def report(self, selection: Selection | None = None) -> ReplayReport:
        """Return a report of the samples in the buffer, and of those left out and why.

        Args:
            selection: The drawn samples; by default all.
        """
        return _report_on(self.all if selection is None else selection)

    def settings(self) -> dict[str, Any]:
        """Return the sources and settings of the buffer as JSON data."""
        held_out = dataclasses.asdict(self.contents.held_out)
        return {
            "webtraj": webtraj.__version__,
            "seed": self.seed,
            "filters": self.contents.filters.to_data(),
            "held_out": {name: _plain(value) for name, value in held_out.items()},
            "render": None if self.render is None else dict(self.render.reference),
            "datasets": [
                {"iteration": source.iteration, "place": source.place.url}
                for source in self.contents.sources
            ],
        }

    def require_samples(self, ways_in: Mapping[Reason, str] | None = None) -> None:
        """Raise an error with the reasons if the buffer is empty.

        Args:
            ways_in: A remedy for each reason, in the caller's terms.

        Raises:
            InvalidInputError: The buffer is empty.
        """
        if not len(self):
            dropped = self.contents.dropped_by_reason()
            reasons = ", ".join(f"{reason}: {count}" for reason, count in dropped.items())
            ways = [f"{way} ({reason})" for reason, way in (ways_in or {}).items()
                    if way and reason in dropped]  # fmt: skip
            raise errors.InvalidInputError(
                f"No samples left of {self.contents.num_episodes} episodes ({reasons or 'none'})."
                " Record more episodes, or change the filters."
                + (f" These let some in: {', '.join(ways)}." if ways else "")
            )


def _name(weighting: Weighting) -> str:
    if isinstance(weighting, functools.partial):
        told = ", ".join(f"{name}={value!r}" for name, value in weighting.keywords.items())
        return f"{weighting.func.__name__.lstrip('_')}({told})"
    return getattr(weighting, "__qualname__", type(weighting).__name__)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# A report in numbers on a buffer or a selection, and on what was left out and why.

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


def _report_on(selection: Selection) -> ReplayReport:
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
