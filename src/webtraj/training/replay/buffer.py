"""The replay buffer: samples of many episodes, held as tables and loaded lazily; and its report.

from_datasets   reads each episode once, and keeps a row for each usable decision
sample          draws rows by weight
Selection       loads the samples of rows, one episode at a time

No trajectory is kept in memory. `report` counts what was left out, by reason and task.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
import orjson
from numpy.typing import NDArray

import webtraj
from webtraj import errors
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.place import map_in_order
from webtraj.store.index import EpisodeSummary
from webtraj.training.replay.cutter import Rendered, Renderer, make_rendered_sample, sample_of
from webtraj.training.replay.filler import Contents, Places, fill, open_sources
from webtraj.training.replay.filters import (
    EPISODE_REASONS,
    Filters,
    HeldOut,
    Reason,
    check_parts,
    find_leaking_rows,
)
from webtraj.training.replay.scanner import digests_of, unit_digest
from webtraj.training.replay.weights import (
    LEVELS,
    View,
    Weighting,
    by_success,
    check,
    draw,
    effective_sample_size,
    mix,
    quotas,
    recency,
    uniform,
)
from webtraj.training.samples import Sample, SampleKey
from webtraj.trajectory import EpisodeTrajectory, Outcome

__all__ = ["Parts", "ReplayBuffer", "ReplayReport", "Selection", "SplitBy", "in_validation"]

_KEPT = 4
"""Episodes in memory while samples are loaded."""
_AHEAD = 4


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
        loss_weights: Weighting = by_success,
        render: Renderer | None = None,
    ) -> None:
        self.contents = contents
        self.seed = seed
        self.render = render
        rows = contents.steps
        places = rows["step"].astype(np.uint64) << np.uint64(16) | rows["call"].astype(np.uint64)
        episodes = contents.episodes["hash"][rows["episode"]]
        self._keys = mix(episodes ^ mix(places, 0), 0)
        self._loss_weights = check(loss_weights, self.view)

    @classmethod
    def from_datasets(
        cls,
        places: Places,
        *,
        last_n_iterations: int | None = 4,
        filters: Filters | None = None,
        held_out: HeldOut | None = None,
        loss_weights: Weighting = by_success,
        render: Renderer | None = None,
        seed: int = 0,
        storage_options: Mapping[str, Any] | None = None,
    ) -> ReplayBuffer:
        """Read datasets into a buffer, each episode once, with a few in memory at a time.

        Args:
            places: A dataset's folder or URL; several, oldest first, as iterations 1, 2, ...;
                datasets by iteration number; or a rollout's `Iterations`.
            last_n_iterations: The number of latest iterations to use; None for all.
            filters: The episodes and steps to include. Default: `Filters()`.
            held_out: Tasks and sites that must not be in the buffer.
            loss_weights: The loss weight of each sample. Default: 1 for a success and 0 otherwise.
                `weights.uniform` gives all samples the same weight, including ungraded ones.
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
            num_samples: The number to draw. Without replacement, at most the number of samples with
                a weight.
            weights: The weighting; see `webtraj.training.replay.weights`.
            seed: Seed of the draw; None for the buffer's.
            replacement: Whether a sample may be drawn several times.

        Raises:
            InvalidInputError: There is nothing to draw from, or a weight is invalid.
        """
        seed = self.seed if seed is None else seed
        found = draw(
            check(weights, self.view),
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

        A sample of the i-th oldest iteration has the weight `i ** power`. At power 2, four equal
        iterations get 3, 13, 30 and 53 % of the draw. The draw meets these shares exactly, up to
        whole samples. If an iteration has too few samples, the others get the rest.

        Args:
            num_samples: The number to draw. Without replacement, at most the number of samples.
            recency_bias_power: The power; 0 treats all iterations alike.
            seed: Seed of the draw; None for the buffer's.
            replacement: Whether a sample may be drawn several times.

        Raises:
            InvalidInputError: There is nothing to draw from, or the power is invalid.
        """
        seed = self.seed if seed is None else seed
        view = self.view
        weights = check(recency(recency_bias_power), view)
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
            selection: The drawn samples. Default: all.
        """
        selection = self.all if selection is None else selection
        contents, view, records = self.contents, selection.view, selection.records
        newest = max(contents.iterations, default=0)
        ranks = {number: age for age, number in enumerate(reversed(contents.iterations))}
        iterations = {int(n): count for n, count in _tally(view.iteration).items()}
        return ReplayReport(
            episodes_read=contents.num_episodes,
            steps_read=contents.num_steps,
            samples=len(selection),
            distinct_samples=len(np.unique(selection.rows)),
            episodes=len(selection.episode_ids),
            dropped_episodes=_count_dropped(contents.dropped, episodes=True),
            dropped_steps=_count_dropped(contents.dropped, episodes=False),
            tasks=_count_by_name(view.task, view.tasks),
            sites=_count_by_name(view.site, view.sites),
            levels=_count_by_name(view.level, LEVELS),
            outcomes={
                Outcome(int(n)).name.lower(): count for n, count in _tally(view.outcome).items()
            },
            actions=_count_by_name(records["verb"], contents.verbs),
            iterations=iterations,
            policy_ages={ranks.get(n, newest): count for n, count in reversed(iterations.items())},
            policy_versions=_count_by_name(view.version, view.versions),
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
            ways_in: A remedy for each reason, in the words of the caller.

        Raises:
            InvalidInputError: The buffer is empty.
        """
        if not len(self):
            dropped = self.contents.count_dropped()
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


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a split selection."""

    train: Selection
    validation: Selection
    left_out: int
    """Validation samples dropped because another episode trains on the same prompt or page."""

    @property
    def splits(self) -> dict[str, Selection]:
        """The parts by name of split, without an empty validation part."""
        return {"train": self.train, **({"val": self.validation} if self.validation else {})}


class Selection(Sequence[Sample]):
    """A selection of a replay buffer's samples. Iterating loads one episode at a time.

    Attributes:
        rows: The rows of the buffer.
        loss_weights: The loss weight of each sample.
        how: The provenance of the selection, as plain data.
    """

    def __init__(
        self,
        buffer: ReplayBuffer,
        rows: NDArray[np.int64],
        loss_weights: NDArray[np.float64],
        how: Mapping[str, Any],
    ) -> None:
        self.buffer = buffer
        self.rows = rows
        self.loss_weights = loss_weights
        self.how = dict(how)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<Selection: {len(self)} samples of {len(self.episode_ids)} episodes>"

    @overload
    def __getitem__(self, key: int) -> Sample: ...
    @overload
    def __getitem__(self, key: slice) -> Selection: ...

    def __getitem__(self, key: int | slice) -> Sample | Selection:
        """Return the loaded sample at an index, or a selection for a slice.

        Raises:
            IndexError: The index is out of range.
            CorruptDataError: Its episode is missing, damaged, or has changed.
        """
        if isinstance(key, slice):
            return self._some(np.arange(len(self))[key], {})
        position = range(len(self))[key]
        return next(iter(self._some(np.array([position]), {})))

    def __iter__(self) -> Iterator[Sample]:
        advantages, loaded = self.view.advantage, self._load()
        for sample, weight, advantage in zip(loaded, self.loss_weights, advantages, strict=True):
            yield dataclasses.replace(
                sample,
                loss_weight=float(weight),
                advantage=None if np.isnan(advantage) else float(advantage),
            )

    @functools.cached_property
    def view(self) -> View:
        """The samples as input of weightings."""
        return self.buffer.contents.view(self.rows)

    @property
    def records(self) -> NDArray[Any]:
        """The samples' rows of `columns.STEPS`."""
        return self.buffer.contents.steps[self.rows]

    @functools.cached_property
    def episode_ids(self) -> tuple[str, ...]:
        """The ids of the samples' episodes, each once."""
        ids = self.buffer.contents.episode_ids
        return tuple(ids[number] for number in np.unique(self.records["episode"]))

    @property
    def keys(self) -> list[SampleKey]:
        """The key of each sample."""
        ids = self.buffer.contents.episode_ids
        return [
            SampleKey(ids[episode], step, call)
            for episode, step, call in self.records[["episode", "step", "call"]].tolist()
        ]

    def positive(self) -> Selection:
        """Return the samples with a loss weight above 0."""
        return self._some(np.flatnonzero(self.loss_weights > 0.0), {"positive": True})

    def shuffle(self, seed: int = 0) -> Selection:
        """Return the samples in a seeded random order. Iterating reloads episodes repeatedly."""
        luck = mix(np.arange(len(self), dtype=np.uint64), seed)
        return self._some(np.argsort(luck, kind="stable"), {"shuffled": seed})

    def with_loss_weights(self, weighting: Weighting) -> Selection:
        """Return the same samples with loss weights from a weighting.

        Raises:
            InvalidInputError: A weight is invalid.
        """
        weights = check(weighting, self.view)
        return Selection(self.buffer, self.rows, weights, {**self.how, "loss_weights": "set"})

    def split(
        self,
        ratio: float,
        *,
        by: SplitBy = "episode",
        seed: int | None = None,
        shared: Literal["drop", "error", "allow"] = "drop",
    ) -> Parts:
        """Split the samples into training and validation, keeping units together.

        A unit's part depends only on its name and the seed, so it stays the same when data is
        added.

        Args:
            ratio: The share of units for validation.
            by: The unit: an episode, a group of attempts, a task or a site. Samples without a
                group or site use their episode.
            seed: Seed of the split; None for the buffer's.
            shared: The treatment of validation samples whose prompt, or page and goal, is also in
                training. "drop": put them in neither part; "error": raise a `LeakError`; "allow":
                keep them.

        Raises:
            LeakError: See `shared`.
            InvalidInputError: The ratio is invalid, or a part has no samples.
        """
        if shared not in ("drop", "error", "allow"):
            raise errors.InvalidInputError(
                f"shared={shared!r:.100} is unknown; expected 'drop', 'error' or 'allow'."
            )
        seed = self.buffer.seed if seed is None else seed
        names, units = np.unique(self._units(by), return_inverse=True)
        held = in_validation(names.tolist(), ratio, seed=seed)[units.reshape(-1)]
        how = {"split": {"by": by, "ratio": ratio, "seed": seed, "shared": shared}}
        train = self._some(np.flatnonzero(~held), {**how, "part": "train"})
        candidates = np.flatnonzero(held)
        if shared == "drop":
            leaking = find_leaking_rows(train.records, self.records[candidates])
            candidates = candidates[~leaking]
        validation = self._some(candidates, {**how, "part": "validation"})
        if ratio > 0.0 and held.any() and not len(validation):
            raise errors.InvalidInputError(
                "Nothing is left to validate on: every page of the validation episodes is also in "
                "the training data. Split by='task' or by='site', or pass shared='allow'."
            )
        if shared != "allow":
            kinds = ("episode", *([by] if by in ("task", "site") else []), "prompt", "page")
            check_parts(train, validation, by=kinds)
        return Parts(train, validation, int(held.sum()) - len(validation))

    def provenance(self) -> dict[str, Any]:
        """Return the provenance of the selection as JSON data, equal for equal inputs.

        It lists datasets and episodes with the SHA-256 of their files, the selected steps of each,
        filters, seeds and webtraj's version.
        """
        contents = self.buffer.contents
        records = self.records
        order = np.argsort(records["episode"], kind="stable")
        numbers, starts = np.unique(records["episode"][order], return_index=True)
        parts = np.split(order, starts[1:]) if len(order) else []
        episodes = [
            {
                "episode_id": contents.episode_ids[number],
                "sha256": contents.episodes["sha256"][number].tobytes().hex(),
                "dataset": int(contents.episodes["source"][number]),
                "steps": records["step"][part].tolist(),
            }
            for number, part in zip(numbers, parts, strict=True)
        ]
        return {
            **self.buffer.settings(),
            "selection": self.how,
            "num_samples": len(self),
            "sha256": self.sha256,
            "episodes": episodes,
        }

    @functools.cached_property
    def sha256(self) -> str:
        """The SHA-256 of its samples in order, with their loss weights."""
        digest = hashlib.sha256(np.ascontiguousarray(self.records["sample"]).tobytes())
        digest.update(self.loss_weights.astype("<f8").tobytes())
        digest.update(orjson.dumps([[key.episode_id, key.step, key.call] for key in self.keys]))
        return digest.hexdigest()

    def _load(self) -> Iterator[Sample]:
        """Yield the samples, one episode at a time, without loss weights or advantages.

        Raises:
            CorruptDataError: An episode is missing, damaged, or has changed since it was read.
            StorageError: A bucket cannot be read.
        """
        contents = self.buffer.contents
        numbers = contents.steps["episode"]
        read = functools.lru_cache(maxsize=_KEPT)(self._read)

        def samples(rows: list[int]) -> list[Sample]:
            number = int(numbers[rows[0]])
            trajectory, rendered = read(number)
            return [self._sample(row, number, trajectory, rendered) for row in rows]

        groups = (list(group) for _, group in itertools.groupby(self.rows, numbers.__getitem__))
        if any(source.place.is_remote for source in contents.sources):
            return itertools.chain.from_iterable(map_in_order(samples, groups, workers=_AHEAD))
        return itertools.chain.from_iterable(map(samples, groups))

    def _read(self, number: int) -> tuple[EpisodeTrajectory, Mapping[int, Rendered]]:
        """Read an episode, and render its decisions if the buffer has a renderer."""
        contents, render = self.buffer.contents, self.buffer.render
        row = contents.episodes[number]
        summary = EpisodeSummary(
            episode_id=contents.episode_ids[number],
            format=contents.formats[row["format"]],
            sha256=row["sha256"].tobytes().hex(),
        )
        place = contents.sources[row["source"]].place
        # From a bucket, load all blobs at once; from a folder, only those in a prompt.
        dataset = Dataset(place, [summary], "eager" if place.is_remote else "lazy")
        trajectory = dataset[summary.episode_id]
        return trajectory, {} if render is None else render.render(trajectory)

    def _sample(
        self,
        row: int,
        number: int,
        trajectory: EpisodeTrajectory,
        rendered: Mapping[int, Rendered],
    ) -> Sample:
        contents, render = self.buffer.contents, self.buffer.render
        record = contents.steps[row]
        step, iteration = int(record["step"]), int(contents.episodes["iteration"][number])
        try:
            if record["recorded"] or render is None:
                sample = sample_of(trajectory, step, int(record["call"]), iteration=iteration)
            else:
                told = render.reference
                sample = make_rendered_sample(trajectory, step, rendered[step], told, iteration)
            same = digests_of(sample) == record["sample"].tobytes()
        except (errors.InvalidInputError, KeyError):
            same = False
        if not same:
            raise errors.CorruptDataError(
                f"The episode {trajectory.episode_id!r} has changed since the replay buffer read "
                "it. Build the buffer again; datasets must not change meanwhile."
            )
        return sample

    def _some(self, positions: NDArray[Any], how: Mapping[str, Any]) -> Selection:
        rows, weights = self.rows[positions], self.loss_weights[positions]
        return Selection(self.buffer, rows, weights, {**self.how, **how})

    def _units(self, by: SplitBy) -> NDArray[np.str_]:
        contents, view = self.buffer.contents, self.view
        alone = np.array([f"episode {name}" for name in contents.recorded_ids], np.str_)
        match by:
            case "episode":
                return alone[view.episode] if len(self) else np.zeros(0, np.str_)
            case "group":
                groups = contents.episodes["group"][view.episode]
                named = np.array([contents.groups[number] for number in groups], np.str_)
            case "task":
                return np.array([view.tasks[number] for number in view.task], np.str_)
            case "site":
                named = np.array([view.sites[number] for number in view.site], np.str_)
            case _:
                raise errors.InvalidInputError(
                    f"split(by={by!r:.100}): expected episode, group, task or site."
                )
        return np.where(named == "", alone[view.episode], named) if len(self) else named


# Splits into training and validation: by episodes, groups, tasks or sites, never by steps.
#
# A unit's part follows from the seed and its name alone, so it stays when data is added: validation
# data never becomes training data later.

SplitBy = Literal["episode", "group", "task", "site"]
"""The unit that a split keeps together."""


def in_validation(names: Sequence[str], ratio: float, *, seed: int = 0) -> NDArray[np.bool_]:
    """Return a mask that selects about `ratio` of the units for validation.

    If no unit of two or more would be selected, the unit nearest to the limit is. Only then can a
    unit change its part when others are added.

    >>> in_validation(["a", "b"], 0.0).tolist()
    [False, False]

    Args:
        names: The units, each once.
        ratio: The share for validation, from 0 to below 1.
        seed: Seed of the split.

    Raises:
        InvalidInputError: The ratio is out of range, or nothing would be left to train on.
    """
    if isinstance(ratio, bool) or not 0.0 <= ratio < 1.0:
        raise errors.InvalidInputError(
            f"The validation ratio is {ratio!r:.100}; expected a number from 0 to below 1."
        )
    luck = np.array([unit_digest("split", seed, name) for name in names], np.uint64)
    chosen: NDArray[np.bool_] = luck.astype(np.float64) / 2.0**64 < ratio
    if ratio > 0.0 and len(names) > 1 and not chosen.any():
        chosen[int(np.argmin(luck))] = True
    if len(names) and chosen.all():
        raise errors.InvalidInputError(
            f"A split of {ratio} leaves nothing to train on: there are only {len(names)} units to "
            "split. Use a smaller ratio, or split by a finer unit."
        )
    return chosen


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


def _count_dropped(
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


def _count_by_name(numbers: NDArray[Any], names: Sequence[str]) -> dict[str, int]:
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
