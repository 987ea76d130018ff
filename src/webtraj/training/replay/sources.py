"""Where a replay buffer's episodes are: datasets, each of one iteration."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.place import DatasetPlace, Place, open_place
from webtraj.rollouts.iterations import Iterations

__all__ = ["Places", "Source", "open_sources"]

Places = Place | Sequence[Place] | Mapping[int, Place] | Iterations
"""One dataset, several that followed each other, datasets by iteration, or a rollout's iterations.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """One dataset."""

    iteration: int
    """From 1; 0 if there is none."""
    place: DatasetPlace

    def open(self) -> Dataset:
        """Reads its index, which takes far more memory than what a buffer keeps."""
        dataset = Dataset(self.place, (), "lazy")
        return dataset.refresh(complete=True)


def open_sources(
    places: Places,
    *,
    last_n_iterations: int | None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Source]:
    """Opens the datasets of the last iterations, the oldest first.

    Of an iteration that was judged, the judged dataset is meant, which says what its episodes were
    worth. A number that was claimed, and given up before its first episode, is no iteration.

    Raises:
        NotADatasetError: One of those that were named is no dataset.
        InvalidInputError: There is none, or `last_n_iterations` is no number above 0.
        StorageError: One cannot be read.
    """
    if last_n_iterations is not None and (
        isinstance(last_n_iterations, bool) or last_n_iterations < 1
    ):
        raise errors.InvalidInputError(
            f"last_n_iterations is {last_n_iterations!r}; expected a number above 0, or None."
        )
    if isinstance(places, Iterations):
        options = places.storage_options if storage_options is None else storage_options
        numbered: dict[int, tuple[Place, ...]] = {
            number: (places.judged(number), places.dataset(number)) for number in places.numbers()
        }
        where, claimed_only = places.place, True
    else:
        options, where, claimed_only = storage_options, "", False
        numbered = {number: (place,) for number, place in _numbered(places).items()}
    found: list[Source] = []
    for number in sorted(numbered, reverse=True):
        if last_n_iterations is not None and len(found) == last_n_iterations:
            break
        try:
            found.append(Source(number, _open_first(numbered[number], options)))
        except errors.NotADatasetError:
            if claimed_only:
                continue
            raise
    if not found:
        raise errors.InvalidInputError(
            f"There is no dataset to train on{f' in {where!r}' if where else ''}; name datasets, "
            "or the save_path of a rollout that has recorded some."
        )
    return found[::-1]


def _open_first(places: tuple[Place, ...], options: Mapping[str, Any] | None) -> DatasetPlace:
    *others, last = places
    for place in others:
        with contextlib.suppress(errors.NotADatasetError):
            return open_place(place, options)
    return open_place(last, options)


def _numbered(places: Any) -> dict[int, Place]:
    if isinstance(places, (str, os.PathLike)):
        return {0: places}
    if isinstance(places, Mapping):
        if not all(type(number) is int and number >= 0 for number in places):
            raise errors.InvalidInputError(
                f"Datasets go by the number of their iteration; got {list(places)!r:.200}."
            )
        return dict(places)
    return dict(enumerate(places, start=1))
