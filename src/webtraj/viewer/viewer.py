"""The datasets that are looked at together, and what is asked of them.

All calls block and are safe to share between threads. Datasets are followed as they are written:
each question looks first whether there is anything new, but not more often than `REFRESH` seconds,
and of a bucket than `REFRESH_BUCKET`. While one looks into a bucket, others are answered by what is
known; so they are while it is away. A folder of datasets is looked into for more of them every
few seconds.
"""

from __future__ import annotations

import collections
import dataclasses
import getpass
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.closing import Closing
from webtraj.datasets.place import Place
from webtraj.store.blobs import Blob
from webtraj.store.index import EpisodeSummary
from webtraj.viewer.gathering import Followed, Gathering
from webtraj.viewer.source import RUNNING, Changes, Source
from webtraj.viewer.table import Page, Query, Row, Table

__all__ = ["REFRESH", "REFRESH_BUCKET", "Viewer"]

REFRESH = 0.5
REFRESH_BUCKET = 10.0
_WRITING = 60.0
"""Seconds for which a dataset counts as being written after something has come."""


class Viewer(Closing):
    """Answers what a page asks of some datasets.

    >>> import tempfile
    >>> from webtraj.datasets.writer import DatasetWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     DatasetWriter(folder).close()
    ...     with Viewer([folder]) as viewer:
    ...         viewer.datasets()[0]["episodes"]
    0
    """

    def __init__(
        self,
        places: Sequence[Place],
        *,
        storage_options: Mapping[str, Any] | None = None,
        blob_cache: Place | None = None,
        person: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Opens the datasets, and reads their indexes.

        Args:
            places: Folders or URLs, each of a dataset; or folders in which datasets are, or come
                to be.
            storage_options: For buckets: what `webtraj.store.bucket.BucketStorage` takes.
            blob_cache: For buckets: a folder that keeps what was read.
            person: Who gives labels; by default the user who runs this.
            clock: Returns seconds.

        Raises:
            InvalidInputError: There are none, or one is given twice.
            NotADatasetError: One is no dataset.
            UnsupportedSchemaError: One was written by a newer webtraj.
            StorageError: A bucket cannot be read.
        """
        self._clock = clock
        self._person = _user() if person is None else person
        self._lock = threading.RLock()
        self._table = Table()
        self._version = time.time_ns() // 1_000_000  # Another one after each start.
        self._iterations: tuple[Any, dict[str, Any]] = (None, {})
        self._begun = False
        self._gathering = Gathering(
            places, storage_options=storage_options, blob_cache=blob_cache, clock=clock
        )
        self._refresh()
        self._table.page(Query())  # So that who asks first need not wait longer than others.
        self._begun = True

    def close(self) -> None:
        """Lets go of the files of labels. Idempotent."""
        self._gathering.close()

    def datasets(self) -> list[dict[str, Any]]:
        """Returns what there is to look at."""
        self._refresh()
        with self._lock:
            counts = collections.Counter(row.dataset for row in self._table.rows)
            return [
                {
                    "name": name,
                    "place": followed.source.place.url,
                    "episodes": counts[name],
                    "iteration": followed.source.iteration,
                    "open": len(followed.still_open),
                    "writing": self._is_written(followed),
                    "problem": followed.problem,
                }
                for name, followed in self._gathering.followed.items()
            ]

    def page(self, query: Query) -> Page:
        """Returns a page of the episodes of all datasets that meet a query."""
        self._refresh()
        with self._lock:
            return self._table.page(query)

    def iterations(self) -> dict[str, Any]:
        """Returns success by iteration and task, as `iterations_data` gives it."""
        from webtraj.viewer.iterations import iterations_data  # Which takes its time to import.

        self._refresh()
        with self._lock:
            followed = self._gathering.followed
            writing = tuple(name for name, one in followed.items() if self._is_written(one))
            known = (self._version, writing)
            if self._iterations[0] != known:
                sources = [one.source for one in followed.values()]
                self._iterations = known, iterations_data(self._table, sources, writing=writing)
            return self._iterations[1]

    def changes(self, since: int) -> dict[str, Any]:
        """Returns a version that goes up with each change, and whether it has since another."""
        self._refresh()
        with self._lock:
            return {
                "version": self._version,
                "changed": self._version != since,
                "datasets": [
                    {
                        "name": name,
                        "open": list(followed.still_open),
                        "writing": self._is_written(followed),
                        "problem": followed.problem,
                    }
                    for name, followed in self._gathering.followed.items()
                ],
            }

    def episode(self, dataset: str, episode_id: str) -> dict[str, Any]:
        """Returns an episode as JSON data, as far as it is recorded if it is open.

        Raises:
            UnknownEpisodeError: There is no such episode.
            CorruptDataError: It cannot be read.
            StorageError: A bucket cannot be read.
        """
        source, summary = self._find(dataset, episode_id)
        try:
            data = source.episode_data(episode_id, summary)
        except errors.UnknownEpisodeError:
            if summary is not None:
                raise
            # It was open, and has been sealed just now.
            source, summary = self._find(dataset, episode_id, at_once=True)
            data = source.episode_data(episode_id, summary)
        with self._lock:
            row = self._table.get(dataset, episode_id)
        state, label, note = (row.state, row.label, row.note) if row else ("", "", "")
        return {**data, "state": state, "label": label, "note": note}

    def blob(self, dataset: str, sha256: str, ext: str, size: int | None, episode_id: str) -> bytes:
        """Returns bytes that an episode's data names by URL.

        Raises:
            UnknownEpisodeError: There are none of that name.
            CorruptDataError: They cannot be read.
            StorageError: A bucket cannot be read.
        """
        source = self._source(dataset)
        if size is not None and source.place.header.shares_blobs:
            return source.shared_blob(Blob(sha256, ext, size))
        source, summary = self._find(dataset, episode_id)
        return source.blob(episode_id, summary, sha256)

    def set_label(self, dataset: str, episode_id: str, label: str, note: str) -> dict[str, Any]:
        """Keeps what a person says of an episode; returns it as JSON data.

        Raises:
            UnknownEpisodeError: There is no such episode.
            InvalidInputError: It is no label.
            StorageError: It could not be kept.
        """
        self._find(dataset, episode_id)
        followed = self._gathering.followed[dataset]
        made = followed.book.put(episode_id, label, note, self._person)
        with self._lock:
            self._relabel(dataset)
        return dataclasses.asdict(made)

    def _source(self, dataset: str) -> Source:
        known = self._gathering.followed
        if dataset not in known:
            raise errors.UnknownEpisodeError(
                f"There is no dataset {dataset!r:.150}; those here are {', '.join(known)}."
            )
        return known[dataset].source

    def _find(
        self, dataset: str, episode_id: str, *, at_once: bool = False
    ) -> tuple[Source, EpisodeSummary | None]:
        """Returns an episode's source and its index line; None for that if it is open."""
        source = self._source(dataset)
        with self._lock:
            row = self._table.get(dataset, episode_id)
        if row is None or row.state or at_once:
            self._refresh(at_once=row is None or at_once)
            with self._lock:
                row = self._table.get(dataset, episode_id)
        if row is None:
            raise errors.UnknownEpisodeError(f"{dataset!r} has no episode {episode_id!r:.150}.")
        return source, None if row.state else row.summary

    def _is_written(self, followed: Followed) -> bool:
        recent = followed.last_change is not None and (
            self._clock() - followed.last_change < _WRITING
        )
        return bool(followed.running) or recent

    def _refresh(self, *, at_once: bool = False) -> None:
        """Looks for what is new; the first time, raises what keeps it from that."""
        came = self._gathering.rescan()
        with self._lock:
            self._version += came
        for name, followed in self._gathering.followed.items():
            in_bucket = followed.source.place.is_remote
            if not self._is_due(followed, at_once):
                continue
            if not followed.looking.acquire(blocking=not in_bucket):
                continue
            try:
                if self._is_due(followed, at_once):  # Another may have looked just now.
                    self._look(name, followed)
            finally:
                followed.looking.release()

    def _is_due(self, followed: Followed, at_once: bool) -> bool:
        in_bucket = followed.source.place.is_remote
        pause = REFRESH_BUCKET if in_bucket else 0.0 if at_once else REFRESH
        return followed.looked is None or self._clock() - followed.looked >= pause

    def _look(self, name: str, followed: Followed) -> None:
        try:
            changes = followed.follower.look()
            labelled = followed.book.refresh()
        except (errors.DatasetError, errors.StorageError) as error:
            if not self._begun:
                raise
            with self._lock:
                self._version += str(error) != followed.problem
                followed.problem = str(error)
            followed.looked = self._clock()
            return
        with self._lock:
            self._version += bool(followed.problem)
            followed.problem = ""
            if self._take(followed, changes) and self._begun:
                followed.last_change = self._clock()
            if labelled:
                self._relabel(name)
        followed.looked = self._clock()

    def _take(self, followed: Followed, changes: Changes) -> bool:
        """Puts what is new into the table; returns whether there was anything."""
        source, labels = followed.source, followed.book.labels
        if changes.anew and followed.looked is not None:
            others = [row for row in self._table.rows if row.dataset != source.name]
            before = {row.key: row for row in self._table.rows if row.dataset == source.name}
            self._table = Table()
            self._table.put(others)
            gone = before.keys() - {(source.name, found.episode_id) for found in changes.sealed}
            if gone:
                self._version += 1

        def row(summary: EpisodeSummary, state: str) -> Row:
            found = labels.get(summary.episode_id)
            label, note = (found.label, found.note) if found else ("", "")
            return Row(source.name, summary, source.iteration, state, label, note)

        rows = [row(summary, "") for summary in changes.sealed]
        sealed = {found.episode_id for found in changes.sealed}
        open_now = [found for found in changes.open if found.summary.episode_id not in sealed]
        changed = self._table.put([*rows, *(row(found.summary, found.state) for found in open_now)])
        followed.still_open = tuple(found.summary.episode_id for found in open_now)
        followed.running = sum(found.state == RUNNING for found in open_now)
        self._version += changed
        return changed

    def _relabel(self, dataset: str) -> None:
        labels = self._gathering.followed[dataset].book.labels
        new = []
        for row in self._table.rows:
            found = labels.get(row.summary.episode_id) if row.dataset == dataset else None
            if found is not None:
                new.append(dataclasses.replace(row, label=found.label, note=found.note))
            elif row.dataset == dataset and (row.label or row.note):
                new.append(dataclasses.replace(row, label="", note=""))
        self._version += self._table.put(new)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # The system has no name for this user.
        return "person"
