"""The datasets that are shown together, and the queries on them.

All calls block and are thread-safe. Each call first reads what was written since the last read, but
at most every `REFRESH` seconds, or `REFRESH_BUCKET` for a bucket. While one thread reads a bucket,
or while the bucket is unreachable, other calls use what is known. Folders of datasets are rescanned
every few seconds.
"""

from __future__ import annotations

import collections
import dataclasses
import getpass
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.datasets.place import Place, absolute_place
from webtraj.metrics.forks import StepValue, forks_data, step_values
from webtraj.runs.run import run_ids
from webtraj.store.blobs import Blob
from webtraj.store.closeable import Closing
from webtraj.store.index import EpisodeSummary
from webtraj.view.collection import Followed, Gathering
from webtraj.view.monitor import RunMonitor
from webtraj.view.source import RUNNING, Changes, Source
from webtraj.view.table import Page, Query, Row, Table

__all__ = ["LOOK", "LOOK_BUCKET", "REFRESH", "REFRESH_BUCKET", "Viewer"]

_logger = logging.getLogger(__name__)

REFRESH = 0.5
REFRESH_BUCKET = 10.0
LOOK, LOOK_BUCKET = 1.0, 5.0
"""The least seconds between two looks at a run, however many visitors ask."""
_WRITING = 60.0
"""Seconds for which a dataset counts as being written after its last change."""
_MOST_RUNS = 50
"""The most runs of a dataset that its page links to."""


class Viewer(Closing):
    """The viewer's queries on a set of datasets.

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
        """Open the datasets and read their indexes.

        Args:
            places: Folders or URLs of datasets, or folders that contain or will contain datasets.
            storage_options: For buckets: the options of `webtraj.store.bucket.BucketStorage`.
            blob_cache: For buckets: a folder that caches blobs.
            person: The name stored with labels. Default: the current user.
            clock: Returns seconds.

        Raises:
            InvalidInputError: No place is given, or a dataset is given twice.
            NotADatasetError: A place is not a dataset.
            UnsupportedSchemaError: A newer webtraj wrote a dataset.
            StorageError: A bucket cannot be read.
        """
        self._clock = clock
        self._person = _user() if person is None else person
        self._lock = threading.RLock()
        self._table = Table()
        self._version = time.time_ns() // 1_000_000  # Differs after each start.
        self._iterations: tuple[Any, dict[str, Any]] = (None, {})
        self._begun = False
        self._gathering = Gathering(
            places, storage_options=storage_options, blob_cache=blob_cache, clock=clock
        )
        self._options = storage_options
        self._values: dict[str, tuple[int, Mapping[str, tuple[StepValue, ...]]]] = {}
        self._monitors: dict[tuple[str, str], RunMonitor] = {}
        self._monitoring = threading.Lock()
        self._refresh()
        self._table.page(Query())  # Warm the cache for the first request.
        self._begun = True

    def close(self) -> None:
        """Close the label files. Idempotent."""
        self._gathering.close()

    def datasets(self) -> list[dict[str, Any]]:
        """Return the datasets as JSON data."""
        self._refresh()
        with self._lock:
            counts = collections.Counter(row.dataset for row in self._table.rows)
            return [
                {
                    "name": name,
                    "place": absolute_place(followed.source.place.url),
                    "episodes": counts[name],
                    "iteration": followed.source.iteration,
                    "open": len(followed.still_open),
                    "writing": self._is_written(followed),
                    "runs": followed.runs()[:_MOST_RUNS],
                    "problem": followed.problem,
                }
                for name, followed in self._gathering.followed.items()
            ]

    def run(self, dataset: str, run_id: str = "") -> dict[str, Any]:
        """Return the status of a dataset's run (by default the latest) as JSON data.

        Raises:
            UnknownEpisodeError: There is no such dataset.
            InvalidInputError: It has no such run.
            StorageError: A bucket cannot be read.
        """
        monitor, every = self._monitor(dataset, run_id)
        return monitor.look(every=every).to_data()

    def run_row(self, dataset: str, number: int, run_id: str = "") -> dict[str, Any]:
        """Return a row of a run's plan as JSON data; raise as `run` does."""
        monitor, every = self._monitor(dataset, run_id)
        monitor.look(every=every)
        return monitor.row(number)

    def page(self, query: Query) -> Page:
        """Return a page of the episodes of all datasets that match a query.

        A query may name a dataset by its place, which the links of reports do.
        """
        self._refresh()
        names = {
            absolute_place(followed.source.place.url): name
            for name, followed in self._gathering.followed.items()
        }
        chosen = tuple(
            (field, tuple(names.get(value, value) for value in values))
            if field == "dataset"
            else (field, values)
            for field, values in query.chosen
        )
        with self._lock:
            return self._table.page(dataclasses.replace(query, chosen=chosen))

    def iterations(self) -> dict[str, Any]:
        """Return success by iteration and task, from `iterations_data`."""
        from webtraj.view.iterations import iterations_data  # Slow to import.

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
        """Return a version that grows with each change, and whether it differs from `since`."""
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
        """Return an episode as JSON data. An open episode ends with what is recorded so far.

        Raises:
            UnknownEpisodeError: There is no such episode.
            CorruptDataError: The episode cannot be read.
            StorageError: A bucket cannot be read.
        """
        source, summary = self._find(dataset, episode_id)
        try:
            data = source.episode_data(episode_id, summary)
        except errors.UnknownEpisodeError:
            if summary is not None:
                raise
            # It was open and has just been sealed.
            source, summary = self._find(dataset, episode_id, at_once=True)
            data = source.episode_data(episode_id, summary)
        with self._lock:
            row = self._table.get(dataset, episode_id)
        state, label, note = (row.state, row.label, row.note) if row else ("", "", "")
        parent = data["info"]["links"].get("parent", "")
        forks = forks_data(episode_id, parent, self._step_values(source))
        return {**data, "state": state, "label": label, "note": note, "forks": forks}

    def _step_values(self, source: Source) -> Mapping[str, tuple[StepValue, ...]]:
        """Return the values of the steps of a dataset's forked episodes."""
        with self._lock:
            version, found = self._values.get(source.name, (None, {}))
            if version == self._version:
                return found
            version = self._version
            summaries = [row.summary for row in self._table.rows if row.dataset == source.name]
        try:
            found = step_values(source.place.storage, summaries)
        except errors.WebtrajError:  # A damaged plan must not hide the episode.
            _logger.warning("Cannot read the forks of %s.", source.place.url, exc_info=True)
        with self._lock:
            self._values[source.name] = version, found
        return found

    def blob(self, dataset: str, sha256: str, ext: str, size: int | None, episode_id: str) -> bytes:
        """Return the bytes behind a URL in an episode's data.

        Raises:
            UnknownEpisodeError: There are no such bytes.
            CorruptDataError: The bytes cannot be read.
            StorageError: A bucket cannot be read.
        """
        source = self._source(dataset)
        if size is not None and source.place.header.shares_blobs:
            return source.shared_blob(Blob(sha256, ext, size))
        source, summary = self._find(dataset, episode_id)
        return source.blob(episode_id, summary, sha256)

    def thumbnail(self, dataset: str, episode_id: str) -> bytes | None:
        """Return a small WebP image of an episode's last page; None without one.

        Raises:
            UnknownEpisodeError: There is no such episode.
            CorruptDataError: The episode cannot be read.
        """
        source, summary = self._find(dataset, episode_id)
        return source.thumbnail(episode_id, summary)

    def set_label(
        self, dataset: str, episode_id: str, label: str, note: str | None
    ) -> dict[str, Any]:
        """Store a person's label of an episode as `LabelBook.put` does, and return it as JSON data.

        Raises:
            UnknownEpisodeError: There is no such episode.
            InvalidInputError: The label is not valid.
            StorageError: The label could not be stored.
        """
        self._find(dataset, episode_id)
        followed = self._gathering.followed[dataset]
        made = followed.book.put(episode_id, label, note, self._person)
        with self._lock:
            self._relabel(dataset)
        return dataclasses.asdict(made)

    def _monitor(self, dataset: str, run_id: str) -> tuple[RunMonitor, float]:
        """Return the monitor of a run, and the minimum number of seconds between two looks."""
        place = self._source(dataset).place
        if not run_id and not place.is_remote:  # In a bucket, the latest at the first look.
            run_id = max(run_ids(place.storage), default="")
        with self._monitoring:
            found = self._monitors.get((place.url, run_id))
            if found is None:
                found = RunMonitor(place.url, run_id or None, storage_options=self._options)
                self._monitors[place.url, run_id] = found
        return found, LOOK_BUCKET if place.is_remote else LOOK

    def _source(self, dataset: str) -> Source:
        known = self._gathering.followed
        if dataset not in known:
            raise errors.UnknownEpisodeError(
                f"No dataset {dataset!r:.150}; the viewer has {', '.join(known) or 'none'}."
            )
        return known[dataset].source

    def _find(
        self, dataset: str, episode_id: str, *, at_once: bool = False
    ) -> tuple[Source, EpisodeSummary | None]:
        """Return an episode's source and its index line; the line is None if it is open."""
        source = self._source(dataset)
        with self._lock:
            row = self._table.get(dataset, episode_id)
        if row is None or row.state or at_once:
            self._refresh(at_once=row is None or at_once)
            with self._lock:
                row = self._table.get(dataset, episode_id)
        if row is None:
            raise errors.UnknownEpisodeError(f"No episode {episode_id!r:.150} in {dataset!r}.")
        return source, None if row.state else row.summary

    def _is_written(self, followed: Followed) -> bool:
        recent = followed.last_change is not None and (
            self._clock() - followed.last_change < _WRITING
        )
        return bool(followed.running) or recent

    def _refresh(self, *, at_once: bool = False) -> None:
        """Read what is new. The first time, errors are raised. Later they become problems."""
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
                if self._is_due(followed, at_once):  # Another thread may have just read it.
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
            self._version += changes.problem != followed.problem
            followed.problem = changes.problem
            if self._take(followed, changes) and self._begun:
                followed.last_change = self._clock()
            if labelled:
                self._relabel(name)
        followed.looked = self._clock()

    def _take(self, followed: Followed, changes: Changes) -> bool:
        """Put changes into the table. Return whether there were any."""
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
