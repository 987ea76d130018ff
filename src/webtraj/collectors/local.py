"""The JSON and Protobuf collectors: episodes as files of a dataset folder (see `store.layout`).

Every intent and step is in the episode's journal, by one write, before the call that records it
returns; `kill -9` loses at most the result of the action in flight, which the journal names. When
an episode ends, its end goes to the journal too, and a background thread makes the final file,
syncs it, names it, adds it to the index and removes the journal.

What a power cut can take depends on `fsync`:

* "episode" (default): episodes that are still open, or that ended since the last `flush`.
* "step": at most the result of the action in flight. Costs one disk sync a record.
* "never": whatever the operating system had not written yet.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.closing import Closing
from webtraj.collectors.base import TrajectoryCollector
from webtraj.collectors.spool import open_index
from webtraj.store import sealing
from webtraj.store.blobs import BlobStore
from webtraj.store.index import EpisodeSummary
from webtraj.store.journal import JournalRecorder, check_process
from webtraj.store.layout import DatasetHeader, DatasetLayout, format_named

__all__ = [
    "BackgroundQueue",
    "Fsync",
    "JournalingCollector",
    "JsonTrajectoryCollector",
    "ProtobufTrajectoryCollector",
]

_LOGGER = logging.getLogger(__name__)

# Work that collectors do in the background, and what becomes of its failures.

_BACKLOG = 32
"""Jobs that may wait before `drain` makes its callers wait."""
_THREADS = 4
"""The jobs wait for the disk most of the time, and disks take several requests at once."""


class BackgroundQueue:
    """Runs jobs on a few threads. A job's failure is raised once, by the next call that waits."""

    def __init__(self, name: str) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix=name)
        self._lock = threading.Lock()
        # In the order of their coming; a set would not keep that.
        self._pending: dict[concurrent.futures.Future[None], None] = {}
        self._failures: list[errors.CollectorError] = []

    @property
    def failures(self) -> list[errors.CollectorError]:
        """The failures that were not raised yet."""
        with self._lock:
            return list(self._failures)

    def submit(self, job: Callable[[], None]) -> None:
        """Has a job done that raises nothing but CollectorError."""

        def run() -> None:
            try:
                job()
            except errors.CollectorError as error:
                self.fail(error)

        with self._lock:
            try:
                self._pending[self._executor.submit(run)] = None
                return
            except RuntimeError:  # The interpreter is shutting down: no thread will do it.
                pass
        run()

    def fail(self, error: errors.CollectorError) -> None:
        """Has a failure raised by the next call that waits."""
        with self._lock:
            self._failures.append(error)

    async def drain(self) -> None:
        """Waits while more than a few jobs are waiting.

        Raises:
            CollectorError: A job failed.
        """
        await self._wait_until(_BACKLOG)

    async def flush(self) -> None:
        """Waits until all jobs are done.

        Raises:
            CollectorError: A job failed.
        """
        await self._wait_until(0)

    def wait(self) -> None:
        """Does what `flush` does, for code without an event loop.

        Raises:
            CollectorError: A job failed.
        """
        concurrent.futures.wait(self._backlog())
        self._raise_failure()

    def shut(self) -> bool:
        """Takes no more jobs; returns whether all are done."""
        self._executor.shutdown(wait=False)
        return not self._backlog()

    async def _wait_until(self, limit: int) -> None:
        # asyncio.wait leaves what it waits for alone when it is cancelled, as it must.
        while len(backlog := self._backlog()) > limit:
            # The oldest alone: to watch them all costs time for each of many that wait.
            await asyncio.wait([asyncio.wrap_future(backlog[0])])
        self._raise_failure()

    def _backlog(self) -> list[concurrent.futures.Future[None]]:
        if not self._pending:
            return []
        with self._lock:
            self._pending = {future: None for future in self._pending if not future.done()}
            return list(self._pending)

    def _raise_failure(self) -> None:
        if not self._failures:
            return
        with self._lock:
            failures, self._failures = self._failures, []
        if failures:
            first, *others = failures
            for other in others:
                first.add_note(f"And: {other}")
            raise first


Fsync = Literal["episode", "step", "never"]

# Keeps collectors that nobody else keeps until the process ends and ends their episodes.
_WITH_OPEN_EPISODES: set[JournalingCollector] = set()


class JournalingCollector(TrajectoryCollector, Closing):
    """Keeps episodes as files in a folder. Safe to share between tasks and threads."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        header: DatasetHeader,
        *,
        fsync: Fsync = "episode",
        on_sealed: Callable[[EpisodeSummary], None] | None = None,
    ) -> None:
        """Initializes the collector, and the dataset folder if it is not there.

        Args:
            path: The dataset folder: new, empty, or a dataset already, which is added to.
            header: What the dataset is.
            fsync: When to wait for the disk; see the module's docstring.
            on_sealed: Called with each episode whose file is in place, on a thread.

        Raises:
            CollectorError: The folder cannot be written.
            InvalidInputError: `fsync` is unknown, or the folder is a dataset of another format.
            NotADatasetError: The folder holds other things.
            UnsupportedSchemaError: The dataset was made by a newer webtraj.
        """
        if fsync not in ("episode", "step", "never"):
            raise errors.InvalidInputError(
                f"fsync={fsync!r} is not known; expected 'episode', 'step' or 'never'."
            )
        self._layout = DatasetLayout(Path(path).absolute())  # The program may change its folder.
        self._header = self._layout.create(header)
        format_named(self._header.format)  # What it needs is missed now, or never.
        self._fsync = fsync
        self._on_sealed = on_sealed
        self._shared = BlobStore(self._layout.blobs, within=self._layout.root)
        self._index = open_index(self._layout, self._header)
        self._sealing = BackgroundQueue("webtraj-seal")
        self._lock = threading.Lock()
        self._open: set[JournalRecorder] = set()
        self._process = os.getpid()
        self._closed = False
        self._unregister_at_exit = _close_at_exit(self)

    @property
    def path(self) -> Path:
        """The dataset folder."""
        return self._layout.root

    @property
    def open_episodes(self) -> tuple[str, ...]:
        """The ids of the episodes that have begun and not ended."""
        with self._lock:
            return tuple(sorted(recorder.episode_id for recorder in self._open))

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> JournalRecorder:
        """Begins the record of one episode; its journal is there when this returns.

        Raises:
            CollectorClosedError: The collector is closed, or was made by another process.
            CollectorError: The journal cannot be written, or the id is taken.
            InvalidEpisodeIdError: The id cannot name a file.
        """
        check_process(self._process, self.path)
        if self._closed:
            raise errors.CollectorClosedError(
                f"The collector of {str(self.path)!r} is closed; make a new one on the same folder."
            )
        if self._layout.episode(info.episode_id, self._header.format).exists():
            raise errors.CollectorError(
                f"The dataset {str(self.path)!r} has an episode {info.episode_id!r} already; "
                "every episode needs an id of its own."
            )
        recorder = JournalRecorder(
            info,
            layout=self._layout,
            blobs=self._blob_store(info.episode_id),
            sync=self._fsync == "step",
            on_end=self._ended,
        )
        with self._lock:
            self._open.add(recorder)
            _WITH_OPEN_EPISODES.add(self)
        return recorder

    async def drain(self) -> None:
        """Waits while more than a few ended episodes are still to be sealed.

        Raises:
            CollectorError: An episode that ended earlier could not be sealed; its journal is kept.
        """
        check_process(self._process, self.path)
        await self._sealing.drain()

    async def flush(self) -> None:
        """Waits until all ended episodes are sealed.

        Raises:
            CollectorError: One could not be sealed; its journal is kept.
        """
        check_process(self._process, self.path)
        await self._sealing.flush()

    async def aclose(self) -> None:
        """Ends open episodes as CLOSED, seals all, and lets go of the folder. Idempotent.

        Raises:
            CollectorError: An episode could not be sealed; its journal is kept.
        """
        if self._process != os.getpid():
            return  # What is open belongs to the process that this one was forked from.
        self._closed = True
        try:
            self._end_open(trajectory_lib.Phase.CLOSE)
            await self.flush()
        finally:
            self._release()

    def close(self) -> None:
        """Does what `aclose` does, for code without an event loop.

        Raises:
            CollectorError: An episode could not be sealed; its journal is kept.
        """
        if self._process != os.getpid():
            return
        self._closed = True
        try:
            self._end_open(trajectory_lib.Phase.CLOSE)
            self._sealing.wait()
        finally:
            self._release()

    def _end_open(self, phase: trajectory_lib.Phase) -> None:
        end = trajectory_lib.EpisodeEnd(reason=trajectory_lib.EndReason.CLOSED, phase=phase)
        with self._lock:
            still_open = list(self._open)
        for recorder in still_open:
            try:
                recorder.end_episode(end)
            except errors.CollectorError as error:
                self._sealing.fail(error)

    def _release(self) -> None:
        self._unregister_at_exit()
        if self._sealing.shut():
            self._index.close()

    def _ended(self, recorder: JournalRecorder) -> None:
        with self._lock:
            self._open.discard(recorder)
            if not self._open:
                _WITH_OPEN_EPISODES.discard(self)
        self._sealing.submit(lambda: self._seal(recorder))

    def _blob_store(self, episode_id: str) -> BlobStore:
        if self._header.shares_blobs:
            return self._shared  # It knows what it holds, and so need not look.
        return sealing.blob_store(self._layout, self._header, episode_id)

    def _seal(self, recorder: JournalRecorder) -> None:
        try:
            summary = sealing.seal(
                self._layout,
                recorder.episode_id,
                header=self._header,
                index=self._index,
                blobs=recorder.unsynced_blobs,
                sync=self._fsync != "never",
            )
        except Exception as error:
            raise errors.CollectorError(
                f"The episode {recorder.episode_id!r} could not be sealed: "
                f"{str(error).rstrip('.')}. Its journal is kept; "
                f"run `webtraj recover {self.path}` once that is mended."
            ) from error
        finally:
            recorder.release()
        if self._on_sealed is not None:
            self._on_sealed(summary)


def _close_at_exit(collector: JournalingCollector) -> Any:
    """Ends what is open when the process ends in good order; returns how to call that off."""
    reference = weakref.ref(collector)

    def close() -> None:
        target = reference()
        if target is None or target._process != os.getpid():
            return
        target._end_open(trajectory_lib.Phase.EXIT)
        for failure in target._sealing.failures:  # Nobody will ask any more.
            _LOGGER.error("%s", failure)

    atexit.register(close)
    return lambda: atexit.unregister(close)


class JsonTrajectoryCollector(JournalingCollector):
    """Keeps episodes as JSON files in a folder. Safe to share between tasks and threads."""

    def __init__(self, path: str | os.PathLike[str], *, fsync: Fsync = "episode") -> None:
        """Initializes the collector, and the dataset folder if it is not there.

        Args:
            path: The dataset folder: new, empty, or a dataset already, which is added to.
            fsync: When to wait for the disk; see the module.

        Raises:
            CollectorError: The folder cannot be written.
            InvalidInputError: `fsync` is unknown, or the folder is a dataset of another format.
            NotADatasetError: The folder holds other things.
            UnsupportedSchemaError: The dataset was made by a newer webtraj.
        """
        super().__init__(path, DatasetHeader(format="json"), fsync=fsync)


class ProtobufTrajectoryCollector(JournalingCollector):
    """Keeps episodes as Protobuf files in a folder. Safe to share between tasks and threads."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: Literal["zst"] | None = None,
        fsync: Fsync = "episode",
    ) -> None:
        """Initializes the collector, and the dataset folder if it is not there.

        Args:
            path: The dataset folder: new, empty, or a dataset already, which is added to.
            compression: None for `.pb` files, "zst" for `.pb.zst`.
            fsync: When to wait for the disk; see the module.

        Raises:
            CollectorError: The folder cannot be written.
            InvalidInputError: `compression` or `fsync` is unknown, or the folder is a dataset of
                another format.
            MissingDependencyError: The packages of `webtraj[protobuf]` are not installed.
            NotADatasetError: The folder holds other things.
            UnsupportedSchemaError: The dataset was made by a newer webtraj.
        """
        if compression not in (None, "zst"):
            raise errors.InvalidInputError(
                f"compression={compression!r} is not known; expected None or 'zst'."
            )
        name = "pb" if compression is None else f"pb.{compression}"
        format_named(name)  # Before a folder is made in vain.
        super().__init__(path, DatasetHeader(format=name), fsync=fsync)
