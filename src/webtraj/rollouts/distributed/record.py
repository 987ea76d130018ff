"""What the store says of episodes whose machine says nothing any more."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.datasets.dataset import open_dataset
from webtraj.datasets.episode_file import summarize_file
from webtraj.datasets.parallel import map_in_order
from webtraj.datasets.place import DatasetPlace, open_place
from webtraj.datasets.recovery import recover
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.scheduling import Turn
from webtraj.store.index import EpisodeSummary
from webtraj.store.layout import episode_key

__all__ = ["Record"]

_WORKERS = 16


class Record:
    """The episodes in the shared store. Calls block."""

    def __init__(
        self, out: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
    ) -> None:
        self._out = out
        self._options = storage_options

    def results(self, turns: Mapping[str, Turn]) -> dict[str, EpisodeResult]:
        """Returns the results of those turns, by episode id, that the store has a record of.

        In a folder, what dead writers left open is sealed first.

        Raises:
            StorageError: The store cannot be read.
            CollectorError: The folder cannot be written.
        """
        try:
            self._seal()
            place = open_place(self._out, storage_options=self._options)
        except errors.NotADatasetError:
            return {}  # No episode has come there yet.
        found = map_in_order(
            lambda item: self._result(place, *item), turns.items(), workers=_WORKERS
        )
        return {result.episode_id: result for result in found if result is not None}

    def summaries(self) -> Sequence[EpisodeSummary]:
        """Returns the summaries of all episodes, those without an index line included.

        Raises:
            StorageError: The store cannot be read or written.
            CollectorError: The folder cannot be written.
        """
        self.complete()
        try:
            return open_dataset(self._out, storage_options=self._options).summaries
        except errors.NotADatasetError:
            return ()  # No episode has come there yet.

    def complete(self) -> None:
        """Gives every episode its index line, of those whose writer died before it could.

        Raises:
            StorageError: The store cannot be read or written.
            CollectorError: The folder cannot be written.
        """
        try:
            recover(self._out, storage_options=self._options)
        except errors.NotADatasetError:
            return

    def _seal(self) -> None:
        if open_place(self._out, storage_options=self._options).layout is not None:
            self.complete()

    @staticmethod
    def _result(place: DatasetPlace, episode_id: str, turn: Turn) -> EpisodeResult | None:
        name = place.header.format
        if place.storage.size(episode_key(episode_id, name)) is None:
            return None
        try:
            content = place.read_episode(episode_id, name)
            summary = summarize_file(episode_id, name, content, place.blobs_of(episode_id))
        except errors.DatasetError:
            return None  # `verify` reports it; the row is played again.
        return EpisodeResult.of_summary(summary, turn.planned, turn.number)
