"""The replay buffer: samples of many episodes, held as tables and loaded lazily.

from_datasets   reads each episode once, and keeps a row for each usable decision
sample          draws rows by weight
Selection       loads the samples of rows, one episode at a time

No trajectory is kept in memory. `report` counts what was left out, by reason and task.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import webtraj
from webtraj import errors
from webtraj.training.replay.cutting import Renderer
from webtraj.training.replay.filling import Contents, Places, fill, open_sources
from webtraj.training.replay.filters import Filters, HeldOut, Reason
from webtraj.training.replay.report import ReplayReport, report_on
from webtraj.training.replay.selection import Selection
from webtraj.training.replay.weights import (
    View,
    Weighting,
    by_reward,
    checked,
    draw,
    mixed,
    quotas,
    recency,
    uniform,
)

__all__ = ["ReplayBuffer"]


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
        return report_on(self.all if selection is None else selection)

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
