"""The datasets that are looked at together, and what is asked of them.

All calls block and are safe to share between threads. Datasets are followed as they are written:
each question looks first whether there is anything new, but not more often than `REFRESH` seconds,
and of a bucket than `REFRESH_BUCKET`. While one looks into a bucket, others are answered by what is
known; so they are while it is away.
"""

from __future__ import annotations

import dataclasses
import getpass
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.closing import Closing
from webtraj.collectors.index import EpisodeSummary
from webtraj.datasets.place import Place, open_place
from webtraj.serialization.blobs import Blob
from webtraj.storage import is_url
from webtraj.viewer.following import RUNNING, Changes, Follower
from webtraj.viewer.labels import LabelBook
from webtraj.viewer.queries import Query
from webtraj.viewer.source import Source
from webtraj.viewer.table import Page, Row, Table

__all__ = ["REFRESH", "REFRESH_BUCKET", "Viewer"]

REFRESH = 0.5
REFRESH_BUCKET = 10.0
_WRITING = 60.0
"""Seconds for which a dataset counts as being written after something has come."""
_ITERATION = re.compile(r"iteration[_-](\d{1,9})")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclasses.dataclass(slots=True)
class _Followed:
    source: Source
    follower: Follower
    book: LabelBook
    looked: float | None = None
    last_change: float | None = None
    still_open: tuple[str, ...] = ()
    running: int = 0
    problem: str = ""
    """Why it could not be looked at the last time."""
    looking: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    """Held by who looks. It is taken before the viewer's own lock, never after it."""


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
            places: Folders or URLs, each of a dataset.
            storage_options: For buckets: what `webtraj.storage.bucket.BucketStorage` takes.
            blob_cache: For buckets: a folder that keeps what was read.
            person: Who gives labels; by default the user who runs this.
            clock: Returns seconds.

        Raises:
            InvalidInputError: There are none, or one is given twice.
            NotADatasetError: One is no dataset.
            UnsupportedSchemaError: One was written by a newer webtraj.
            StorageError: A bucket cannot be read.
        """
        if not places:
            raise errors.InvalidInputError("Name a dataset to look at, or several.")
        self._clock = clock
        self._person = _user() if person is None else person
        self._lock = threading.RLock()
        self._table = Table()
        self._version = time.time_ns() // 1_000_000  # Another one after each start.
        self._followed: dict[str, _Followed] = {}
        for place in places:
            opened = open_place(
                place,
                storage_options if is_url(place) else None,
                blob_cache=blob_cache if is_url(place) else None,
            )
            url = opened.url.rstrip("/")
            if any(
                followed.source.place.url.rstrip("/") == url for followed in self._followed.values()
            ):
                raise errors.InvalidInputError(f"The dataset {opened.url!r} is given twice.")
            found = _ITERATION.fullmatch(url.rpartition("/")[2])
            name = _name(url, self._followed)
            source = Source(name, opened, int(found[1]) if found else None)
            self._followed[name] = _Followed(source, Follower(opened), LabelBook(opened))
        self._refresh()
        self._table.page(Query())  # So that who asks first need not wait longer than others.

    def close(self) -> None:
        """Lets go of the files of labels. Idempotent."""
        for followed in self._followed.values():
            followed.book.close()

    def datasets(self) -> list[dict[str, Any]]:
        """Returns what there is to look at."""
        self._refresh()
        with self._lock:
            counts: dict[str, int] = dict.fromkeys(self._followed, 0)
            for row in self._table.rows:
                counts[row.dataset] += 1
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
                for name, followed in self._followed.items()
            ]

    def page(self, query: Query) -> Page:
        """Returns a page of the episodes of all datasets that meet a query."""
        self._refresh()
        with self._lock:
            return self._table.page(query)

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
                    for name, followed in self._followed.items()
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
        followed = self._followed[dataset]
        made = followed.book.put(episode_id, label, note, self._person)
        with self._lock:
            self._relabel(dataset)
        return dataclasses.asdict(made)

    def _source(self, dataset: str) -> Source:
        if dataset not in self._followed:
            raise errors.UnknownEpisodeError(
                f"There is no dataset {dataset!r:.150}; those here are {', '.join(self._followed)}."
            )
        return self._followed[dataset].source

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

    def _is_written(self, followed: _Followed) -> bool:
        recent = followed.last_change is not None and (
            self._clock() - followed.last_change < _WRITING
        )
        return bool(followed.running) or recent

    def _refresh(self, *, at_once: bool = False) -> None:
        """Looks for what is new; the first time, raises what keeps it from that."""
        for name, followed in self._followed.items():
            in_bucket = followed.source.place.layout is None
            if not self._is_due(followed, at_once):
                continue
            if not followed.looking.acquire(blocking=not in_bucket):
                continue
            try:
                if self._is_due(followed, at_once):  # Another may have looked just now.
                    self._look(name, followed)
            finally:
                followed.looking.release()

    def _is_due(self, followed: _Followed, at_once: bool) -> bool:
        in_bucket = followed.source.place.layout is None
        pause = REFRESH_BUCKET if in_bucket else 0.0 if at_once else REFRESH
        return followed.looked is None or self._clock() - followed.looked >= pause

    def _look(self, name: str, followed: _Followed) -> None:
        first = followed.looked is None
        try:
            changes = followed.follower.look()
            labelled = followed.book.refresh()
        except (errors.DatasetError, errors.StorageError) as error:
            if first:
                raise
            with self._lock:
                self._version += str(error) != followed.problem
                followed.problem = str(error)
            followed.looked = self._clock()
            return
        with self._lock:
            self._version += bool(followed.problem)
            followed.problem = ""
            if self._take(followed, changes) and not first:
                followed.last_change = self._clock()
            if labelled:
                self._relabel(name)
        followed.looked = self._clock()

    def _take(self, followed: _Followed, changes: Changes) -> bool:
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
        labels = self._followed[dataset].book.labels
        new = []
        for row in self._table.rows:
            found = labels.get(row.summary.episode_id) if row.dataset == dataset else None
            if found is not None:
                new.append(dataclasses.replace(row, label=found.label, note=found.note))
            elif row.dataset == dataset and (row.label or row.note):
                new.append(dataclasses.replace(row, label="", note=""))
        self._version += self._table.put(new)


def _name(url: str, taken: Mapping[str, Any]) -> str:
    """Returns a name for a dataset that a URL holds, and that no other has."""
    parts = [part for part in re.split(r"[/\\]+", url) if part and not part.endswith(":")]
    name = _UNSAFE.sub("-", parts[-1] if parts else "").strip(".-")[:80] or "dataset"
    made, number = name, 2
    while made in taken:
        made, number = f"{name}-{number}", number + 1
    return made


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # The system has no name for this user.
        return "person"
