"""The JSON and Protobuf collectors: episodes as files of a dataset folder (see `store.layout`).

Every intent and step is written to the episode's journal, in one write, before the call that
records it returns; `kill -9` loses at most the result of the action in flight, which the journal
names. When an episode ends, its end is written to the journal too, and a background thread makes
the final file, syncs it, names it, adds it to the index and removes the journal.

A power cut can lose, depending on `fsync`:

* "episode" (default): episodes that are still open, or that ended since the last `flush`.
* "step": at most the result of the action in flight. Costs one disk sync per record.
* "never": whatever the operating system had not written yet.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import TrajectoryCollector, raise_first
from webtraj.collectors.spool import open_index
from webtraj.store import sealing
from webtraj.store.blobs import BlobStore
from webtraj.store.closeable import Closing
from webtraj.store.formats import format_named
from webtraj.store.index import EpisodeSummary
from webtraj.store.journal import JournalRecorder, check_process
from webtraj.store.layout import DatasetHeader, DatasetLayout
from webtraj.store.places import is_url

__all__ = [
    "BackgroundQueue",
    "Fsync",
    "JournalingCollector",
    "JsonTrajectoryCollector",
    "ProtobufTrajectoryCollector",
    "at_exit",
]

_LOGGER = logging.getLogger(__name__)

# Background work of collectors, and the handling of its failures.

_BACKLOG = 32
"""The number of waiting jobs above which `drain` waits."""
_THREADS = 4
"""Jobs mostly wait for the disk, and disks handle several requests at once."""


class BackgroundQueue:
    """Runs jobs on a few threads. A job's failure is raised once, by the next call that waits."""

    def __init__(self, name: str) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix=name)
        self._lock = threading.Lock()
        # A dict, since a set would not keep the order.
        self._pending: dict[concurrent.futures.Future[None], None] = {}
        self._failures: list[errors.CollectorError] = []

    @property
    def failures(self) -> list[errors.CollectorError]:
        """The failures that have not been raised yet."""
        with self._lock:
            return list(self._failures)

    def submit(self, job: Callable[[], None]) -> None:
        """Queue a job, which may only raise CollectorError."""

        def run() -> None:
            try:
                job()
            except errors.CollectorError as error:
                self.fail(error)

        with self._lock:
            try:
                self._pending[self._executor.submit(run)] = None
                return
            except RuntimeError:  # The interpreter is shutting down and starts no threads.
                pass
        run()

    def fail(self, error: errors.CollectorError) -> None:
        """Make the next call that waits raise a failure."""
        with self._lock:
            self._failures.append(error)

    async def drain(self) -> None:
        """Wait while more than a few jobs are queued.

        Raises:
            CollectorError: A job failed.
        """
        await self._wait_until(_BACKLOG)

    async def flush(self) -> None:
        """Wait until all jobs are done.

        Raises:
            CollectorError: A job failed.
        """
        await self._wait_until(0)

    def wait(self) -> None:
        """Do what `flush` does, for code without an event loop.

        Raises:
            CollectorError: A job failed.
        """
        concurrent.futures.wait(self._backlog())
        self._raise_failure()

    def shut(self) -> bool:
        """Accept no more jobs; return whether all are done."""
        self._executor.shutdown(wait=False)
        return not self._backlog()

    async def _wait_until(self, limit: int) -> None:
        # asyncio.wait does not cancel what it waits for, which is essential here.
        while len(backlog := self._backlog()) > limit:
            # Only the oldest: waiting for all would cost time for each of many waiters.
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
        raise_first(failures)


Fsync = Literal["episode", "step", "never"]
_Target = TypeVar("_Target")

# Keeps otherwise unreferenced collectors alive until the process ends and ends their episodes.
_WITH_OPEN_EPISODES: set[JournalingCollector] = set()


class JournalingCollector(TrajectoryCollector, Closing):
    """Stores episodes as files in a folder. Safe to share between tasks and threads."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        header: DatasetHeader,
        *,
        fsync: Fsync = "episode",
        on_sealed: Callable[[EpisodeSummary], None] | None = None,
    ) -> None:
        """Initialize the collector, and make the dataset folder if missing.

        Args:
            path: The dataset folder: new, empty, or an existing dataset to add to.
            header: The dataset's header.
            fsync: When to wait for the disk; see the module.
            on_sealed: Called with each episode once its file is in place, on a thread.

        Raises:
            CollectorError: The folder cannot be written.
            InvalidInputError: `fsync` is unknown, the path is a URL, or the folder is a dataset of
                another format.
            NotADatasetError: The folder is not empty and not a dataset.
            UnsupportedSchemaError: The dataset is from a newer webtraj.
        """
        if fsync not in ("episode", "step", "never"):
            raise errors.InvalidInputError(
                f"Unknown fsync={fsync!r}: expected 'episode', 'step' or 'never'."
            )
        if is_url(path):
            raise errors.InvalidInputError(
                f"{path!r:.200} is not a folder. For a bucket, use "
                "webtraj.BucketTrajectoryCollector(url), with format='pb' for Protobuf."
            )
        self._layout = DatasetLayout(Path(path).absolute())  # The program may call chdir.
        self._header = self._layout.create(header)
        format_named(self._header.format)  # Fails early if a package is missing.
        self._fsync = fsync
        self._on_sealed = on_sealed
        self._shared = BlobStore(self._layout.blobs, within=self._layout.root)
        self._index = open_index(self._layout, self._header)
        self._sealing = BackgroundQueue("webtraj-seal")
        self._lock = threading.Lock()
        self._open: set[JournalRecorder] = set()
        self._process = os.getpid()
        self._closed = False
        self._unregister_at_exit = at_exit(self, JournalingCollector._exit)

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
        """Begin the record of one episode; its journal exists when this returns.

        Raises:
            CollectorClosedError: The collector is closed, or was made by another process.
            CollectorError: The journal cannot be written, or the id is already used.
            InvalidEpisodeIdError: The id cannot name a file.
        """
        check_process(self._process, self.path)
        if self._closed:
            raise errors.CollectorClosedError(
                f"The collector of {str(self.path)!r} is closed. Make a new one for this folder."
            )
        if self._layout.episode(info.episode_id, self._header.format).exists():
            raise errors.CollectorError(
                f"The dataset {str(self.path)!r} already has an episode {info.episode_id!r}. "
                "Every episode needs its own id."
            )
        recorder = JournalRecorder(
            info,
            layout=self._layout,
            blobs=self._blob_store(info.episode_id),
            sync=self._fsync == "step",
            on_end=self._finish,
        )
        with self._lock:
            self._open.add(recorder)
            _WITH_OPEN_EPISODES.add(self)
        return recorder

    async def drain(self) -> None:
        """Wait while more than a few ended episodes are still to be sealed.

        Raises:
            CollectorError: An episode that ended earlier could not be sealed; its journal is kept.
        """
        check_process(self._process, self.path)
        await self._sealing.drain()

    async def flush(self) -> None:
        """Wait until all ended episodes are sealed.

        Raises:
            CollectorError: An episode could not be sealed; its journal is kept.
        """
        check_process(self._process, self.path)
        await self._sealing.flush()

    async def aclose(self) -> None:
        """End open episodes as CLOSED, seal all, and release the folder. Idempotent.

        Raises:
            CollectorError: An episode could not be sealed; its journal is kept.
        """
        if self._process == os.getpid():  # The parent process owns the open episodes.
            with self._closing():
                await self.flush()

    def close(self) -> None:
        """Do what `aclose` does, for code without an event loop.

        Raises:
            CollectorError: An episode could not be sealed; its journal is kept.
        """
        if self._process == os.getpid():
            with self._closing():
                self._sealing.wait()

    @contextlib.contextmanager
    def _closing(self) -> Iterator[None]:
        """End open episodes, let the block wait for them, and release the folder."""
        self._closed = True
        try:
            self._end_open(trajectory_lib.Phase.CLOSE)
            yield
        finally:
            self._unregister_at_exit()
            if self._sealing.shut():
                self._index.close()

    def _exit(self) -> None:
        self._end_open(trajectory_lib.Phase.EXIT)
        for failure in self._sealing.failures:  # No later call will report them.
            _LOGGER.error("%s", failure)

    def _end_open(self, phase: trajectory_lib.Phase) -> None:
        end = trajectory_lib.EpisodeEnd(reason=trajectory_lib.EndReason.CLOSED, phase=phase)
        with self._lock:
            still_open = list(self._open)
        for recorder in still_open:
            try:
                recorder.end_episode(end)
            except errors.CollectorError as error:
                self._sealing.fail(error)

    def _finish(self, recorder: JournalRecorder) -> None:
        with self._lock:
            self._open.discard(recorder)
            if not self._open:
                _WITH_OPEN_EPISODES.discard(self)
        self._sealing.submit(lambda: self._seal(recorder))

    def _blob_store(self, episode_id: str) -> BlobStore:
        if self._header.shares_blobs:
            return self._shared  # It remembers its blobs and need not check the disk.
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
            if self._layout.journal(recorder.episode_id).exists():
                rest = (
                    "Its journal is kept. "
                    f"Run `{errors.command('recover', self.path)}` once the problem is fixed."
                )
            else:
                rest = f"Its journal is gone: it was deleted from {str(self.path)!r}."
            raise errors.CollectorError(
                f"The episode {recorder.episode_id!r} could not be sealed: "
                f"{str(error).rstrip('.')}. {rest}"
            ) from error
        finally:
            recorder.release()
        if self._on_sealed is not None:
            self._on_sealed(summary)


def at_exit(target: _Target, end: Callable[[_Target], None]) -> Callable[[], None]:
    """Call `end(target)` at a normal exit of this process, unless the target is gone by then.

    Returns:
        A function that cancels this.
    """
    reference, process = weakref.ref(target), os.getpid()

    def run() -> None:
        found = reference()
        if found is not None and process == os.getpid():
            end(found)

    atexit.register(run)
    return lambda: atexit.unregister(run)


class JsonTrajectoryCollector(JournalingCollector):
    """Stores episodes as JSON files in a folder. Safe to share between tasks and threads."""

    def __init__(self, path: str | os.PathLike[str], *, fsync: Fsync = "episode") -> None:
        """Initialize the collector, and make the dataset folder if missing.

        Args:
            path: The dataset folder: new, empty, or an existing dataset to add to.
            fsync: When to wait for the disk; see the module.

        Raises:
            CollectorError: The folder cannot be written.
            InvalidInputError: `fsync` is unknown, the path is a URL, or the folder is a dataset of
                another format.
            NotADatasetError: The folder is not empty and not a dataset.
            UnsupportedSchemaError: The dataset is from a newer webtraj.
        """
        super().__init__(path, DatasetHeader(format="json"), fsync=fsync)


class ProtobufTrajectoryCollector(JournalingCollector):
    """Stores episodes as Protobuf files in a folder. Safe to share between tasks and threads."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: Literal["zst"] | None = None,
        fsync: Fsync = "episode",
    ) -> None:
        """Initialize the collector, and make the dataset folder if missing.

        Args:
            path: The dataset folder: new, empty, or an existing dataset to add to.
            compression: None for `.pb` files, "zst" for `.pb.zst`.
            fsync: When to wait for the disk; see the module.

        Raises:
            CollectorError: The folder cannot be written.
            InvalidInputError: `compression` or `fsync` is unknown, or the folder is a dataset of
                another format.
            MissingDependencyError: The packages of `webtraj[protobuf]` are not installed.
            NotADatasetError: The folder is not empty and not a dataset.
            UnsupportedSchemaError: The dataset is from a newer webtraj.
        """
        if compression not in (None, "zst"):
            raise errors.InvalidInputError(
                f"Unknown compression={compression!r}: expected None or 'zst'."
            )
        name = "pb" if compression is None else f"pb.{compression}"
        format_named(name)  # Fails before the folder is made.
        super().__init__(path, DatasetHeader(format=name), fsync=fsync)
