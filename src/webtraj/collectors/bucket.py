"""The bucket collector: episodes in a bucket of any object store, by way of a local spool.

Episodes are recorded in the spool (see `spool`), with the code and the guarantees of the local
collectors (see `local`) and without the network. An episode that has ended is sealed there. Threads
in the background then send (see `uploader`) its blobs, its file, and, together with those of other
episodes, its index line. Only when all is in the bucket is the episode removed from the spool.

If the bucket does not accept episodes:

* The rollout continues, and the spool keeps everything. This is logged once, and again when it is
  over. The bucket is retried, after pauses of up to a minute, for as long as the collector lives.
* `drain` makes the rollout wait while more than `max_unsent_bytes` are waiting, or the disk has
  less than `min_free_bytes` left, but only if the bucket accepts episodes. If not, nobody waits.
  If the disk fills up, recording fails with a `CollectorError`, as on any full disk, and everything
  recorded before is safe.
* `seal` waits only for the spool, and so does an environment that is closed.
* `flush` and `aclose` give up after some attempts, or after `close_timeout`, with a
  `CollectorError` that lists what is not in the bucket. It is in the spool; `webtraj push` sends
  it, to the bucket or, if that is gone for good, elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import TrajectoryCollector, raise_first
from webtraj.collectors.local import Fsync, JournalingCollector, at_exit
from webtraj.collectors.spool import Spool, spool_for
from webtraj.collectors.uploader import Pauses, Unsent, Uploader, UploadStatus
from webtraj.store.closeable import Closing
from webtraj.store.formats import format_named
from webtraj.store.index import EpisodeSummary
from webtraj.store.journal import JournalRecorder
from webtraj.store.layout import DatasetHeader
from webtraj.store.places import is_url, open_storage
from webtraj.store.storage import Storage

__all__ = [
    "BucketTrajectoryCollector",
    "Pauses",
    "S3TrajectoryCollector",
    "UploadStatus",
    "open_destination",
]

_LOGGER = logging.getLogger(__name__)

_LOOK_AGAIN = 1.0
"""Seconds between checks of a full disk."""
_SHOWN = 3


class BucketTrajectoryCollector(TrajectoryCollector, Closing):
    """Stores episodes in a bucket. Safe to share between tasks and threads."""

    def __init__(
        self,
        url: str,
        *,
        format: str = "json",  # noqa: A002
        spool: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        fsync: Fsync = "episode",
        max_uploads: int = 16,
        max_unsent_bytes: int = 4 << 30,
        min_free_bytes: int = 1 << 30,
        index_interval: float = 5.0,
        pauses: Pauses | None = None,
        check_timeout: float = 5.0,
        close_timeout: float = 300.0,
    ) -> None:
        """Initialize the collector, and make the spool folder if missing.

        Args:
            url: The destination: `s3://bucket/prefix`, `gs://`, `az://`, ...
            format: The format of episodes: "json", "pb" or "pb.zst".
            spool: The folder in which episodes wait. Default: a folder for the destination under
                `$XDG_STATE_HOME/webtraj/spool`. Processes may share it.
            storage_options: The arguments of `webtraj.store.bucket.BucketStorage`: endpoint,
                region, credentials, ... Those that are not secret are saved in the spool, for
                `webtraj push`.
            fsync: When to wait for the disk; see `webtraj.collectors.local`.
            max_uploads: The maximum number of concurrent requests.
            max_unsent_bytes: `drain` waits while more than this is waiting for a bucket that
                accepts episodes.
            min_free_bytes: `drain` also waits while the spool's disk has less space than this.
            index_interval: Seconds for which an index line waits for others to be sent with it.
            pauses: How long to leave a failing bucket alone.
            check_timeout: Seconds to wait for the bucket to report whether it has a dataset of
                another format; if it does not answer, it is asked again before the first episode
                is sent.
            close_timeout: Seconds after which `aclose` gives up.

        Raises:
            CollectorError: The spool folder cannot be written.
            InvalidInputError: An argument is wrong, or the bucket or the spool has another format
                or destination.
            MissingDependencyError: A package for the bucket, or the format, is not installed.
            NotADatasetError: The spool folder is not empty and not a spool.
            UnsupportedSchemaError: The bucket's dataset, or the spool, is from a newer webtraj.
        """
        _check(format, max_uploads)
        options = dict(storage_options or {})
        destination = url if is_url(url) else str(Path(url).absolute())
        folder = Path(spool) if spool is not None else spool_for(destination, format, options)
        self._spool = Spool(folder, format)
        self._max_unsent_bytes = max_unsent_bytes
        self._min_free_bytes = min_free_bytes
        self._close_timeout = close_timeout
        self._closed = False
        self._process = os.getpid()
        self._uploader = Uploader(
            self._spool,
            open_destination(destination, options),
            max_uploads=max_uploads,
            index_interval=index_interval,
            pauses=pauses,
        )
        with contextlib.ExitStack() as undo:
            # Registered before the journals' own hook, and so called after it.
            report = functools.partial(_report_at_exit, spool=self._spool.path)
            undo.callback(at_exit(self._uploader, report))
            self._uploader.check(check_timeout)
            if spool is None:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._journals = JournalingCollector(
                folder,
                DatasetHeader(format=format, destination=destination),
                fsync=fsync,
                on_sealed=self._enqueue,
            )
            self._spool.keep_options(options)
            self._release = undo.pop_all().close

    @property
    def url(self) -> str:
        """The destination, without credentials."""
        return self._uploader.url

    @property
    def spool(self) -> Path:
        """The folder in which episodes wait."""
        return self._spool.path

    @property
    def open_episodes(self) -> tuple[str, ...]:
        """The ids of the episodes that have begun and not ended."""
        return self._journals.open_episodes

    def status(self) -> UploadStatus:
        """Return the number and size of sent and unsent episodes."""
        return self._uploader.status(open_episodes=len(self.open_episodes))

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> JournalRecorder:
        """Begin the record of one episode; its journal exists when this returns.

        Raises:
            CollectorClosedError: The collector is closed, or was made by another process.
            CollectorError: The journal cannot be written, or the id is already used.
            InvalidEpisodeIdError: The id cannot name a file.
        """
        return self._journals.begin_episode(info)

    async def drain(self) -> None:
        """Wait while too much is waiting to be sent, if the bucket accepts it.

        Raises:
            CollectorError: An episode that ended earlier could not be sealed; its journal is kept.
        """
        await self._journals.drain()
        if self._is_behind():
            await self._wait_until(lambda: not self._is_behind(), look_again=_LOOK_AGAIN)

    async def seal(self) -> None:
        """Wait until every ended episode is sealed in the spool, whatever the bucket does.

        Raises:
            CollectorError: An episode could not be sealed; its journal is kept.
        """
        await self._journals.flush()

    async def flush(self) -> None:
        """Wait until every ended episode is in the bucket, with its index line.

        Raises:
            CollectorError: An episode was set aside, or the bucket failed several times
                in a row. The spool keeps it, and retries it unless it was set aside.
        """
        await self._flush(self._journals.flush())

    async def aclose(self) -> None:
        """End open episodes as CLOSED, flush, and release all resources. Idempotent.

        Raises:
            CollectorError: Some episodes are not in the bucket; the spool keeps them.
        """
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        deadline = time.monotonic() + self._close_timeout
        try:
            await self._flush(self._journals.aclose(), deadline)
        finally:
            self._let_go()

    def close(self) -> None:
        """Do what `aclose` does, for code without an event loop.

        Raises:
            CollectorError: Some episodes are not in the bucket; the spool keeps them.
        """
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        failures: list[errors.CollectorError] = []
        try:
            try:
                self._journals.close()
            except errors.CollectorError as error:
                failures.append(error)
            self._report(self._uploader.wait(self._close_timeout), failures)
        finally:
            self._let_go()

    def _enqueue(self, summary: EpisodeSummary) -> None:
        self._uploader.add(summary.episode_id, self._spool.size(summary.episode_id))

    async def _flush(self, sealing: Awaitable[None], deadline: float | None = None) -> None:
        """Wait until the episodes are sealed, then until they are in the bucket."""
        failures: list[errors.CollectorError] = []
        try:
            await sealing
        except errors.CollectorError as error:
            failures.append(error)
        with self._uploader.flushing() as flush:
            await self._wait_until(flush.done, deadline=deadline)
            self._report(flush.unsent(), failures)

    def _report(self, unsent: list[Unsent], failures: list[errors.CollectorError]) -> None:
        """Raise an error if episodes were not sent or could not be sealed."""
        if unsent:
            why = describe_unsent(unsent, self._uploader.status().last_error, self.url, self.spool)
            failures = [errors.CollectorError(why), *failures]
        raise_first(failures)

    def _is_behind(self) -> bool:
        if self._uploader.is_behind(self._max_unsent_bytes):
            return True
        if not self._min_free_bytes or not self._uploader.is_behind(0):
            return False
        with contextlib.suppress(OSError):
            return shutil.disk_usage(self.spool).free < self._min_free_bytes
        return False

    async def _wait_until(
        self,
        condition: Callable[[], bool],
        *,
        deadline: float | None = None,
        look_again: float | None = None,
    ) -> None:
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        with self._uploader.watch(lambda: loop.call_soon_threadsafe(changed.set)):
            while not condition():
                seconds = look_again
                if deadline is not None:
                    seconds = deadline - time.monotonic()
                    if seconds <= 0:
                        return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), seconds)
                changed.clear()

    def _let_go(self) -> None:
        # Idle threads end at once. Requests in flight end in their own time, at the latest with the
        # process.
        if self._uploader.stop(timeout=0.5):
            self._release()


S3TrajectoryCollector = BucketTrajectoryCollector
"""The same, under its well-known name."""


def open_destination(url: str, options: Mapping[str, Any]) -> Storage:
    """Return the storage that a spool's episodes go to.

    Raises:
        InvalidInputError: The destination or an option is invalid.
        MissingDependencyError: A package for the bucket is not installed.
    """
    options = dict(options)
    if is_url(url) and not url.lower().startswith("file:"):
        # The spool keeps everything, so there is no need to insist on one request.
        options.setdefault("retry", {"deadline": 10.0})
    return open_storage(url, options)


def describe_unsent(unsent: list[Unsent], last_error: str, url: str, spool: Path) -> str:
    """Return which episodes are not in the bucket, why, and what to do."""
    named = ", ".join(repr(one.episode_id) for one in unsent[:_SHOWN])
    more = f" and {len(unsent) - _SHOWN} more" if len(unsent) > _SHOWN else ""
    size = sum(one.size for one in unsent)
    reasons = list(dict.fromkeys(one.reason.rstrip(".") for one in unsent if one.reason))
    why = "; ".join(reasons[:_SHOWN]) or last_error.rstrip(".") or "they are still queued"
    return (
        f"{len(unsent)} episodes ({size:,} bytes) are not in {url!r}: {named}{more}; {why}. "
        f"They are kept in {str(spool)!r}. Run "
        f"`{errors.command('push', spool)}` once the problem is fixed, "
        "or add `--to PLACE` to send them elsewhere."
    )


def _check(format_name: str, max_uploads: int) -> None:
    if format_name not in ("json", "pb", "pb.zst"):
        raise errors.InvalidInputError(
            f"Unknown format={format_name!r}: expected 'json', 'pb' or 'pb.zst'."
        )
    format_named(format_name)  # Fails early if a package is missing.
    if max_uploads < 1:
        raise errors.InvalidInputError(f"Invalid max_uploads={max_uploads!r}: expected at least 1.")


def _report_at_exit(uploader: Uploader, spool: Path) -> None:
    """End the threads before the interpreter does, and log what is not sent.

    A thread inside a request would crash the process when the interpreter ends, so requests in
    flight are waited for.
    """
    uploader.stop()
    unsent = uploader.unsent()
    if unsent:  # No later call will report it.
        last_error = uploader.status().last_error
        _LOGGER.error("%s", describe_unsent(unsent, last_error, uploader.url, spool))
