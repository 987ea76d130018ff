"""The JSON collector: episodes as JSON files in a dataset folder (see `layout`).

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
import dataclasses
import logging
import os
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors import files, sealing
from webtraj.collectors.blobs import BlobStore, RecordingSink
from webtraj.collectors.index import IndexWriter
from webtraj.collectors.journal import JournalWriter
from webtraj.collectors.layout import SCHEMA_VERSION, DatasetLayout
from webtraj.serialization import records

__all__ = ["Fsync", "JsonTrajectoryCollector"]

Fsync = Literal["episode", "step", "never"]

_BACKLOG = 32
"""Ended episodes that may wait to be sealed before `drain` makes its callers wait."""
_SEALING_THREADS = 4
"""Sealing waits for the disk most of the time, and disks take several requests at once."""
_LOGGER = logging.getLogger(__name__)
# Keeps collectors that nobody else keeps until the process ends and ends their episodes.
_WITH_OPEN_EPISODES: set[JsonTrajectoryCollector] = set()


class JsonTrajectoryCollector:
    """Keeps episodes as JSON files in a folder. Safe to share between tasks and threads."""

    def __init__(self, path: str | os.PathLike[str], *, fsync: Fsync = "episode") -> None:
        """Initializes the collector, and the dataset folder if it is not there.

        Args:
            path: The dataset folder: new, empty, or a dataset already, which is added to.
            fsync: When to wait for the disk; see the module's docstring.

        Raises:
            CollectorError: The folder cannot be written.
            InvalidInputError: `fsync` is none of its values.
            NotADatasetError: The folder holds other things.
            UnsupportedSchemaError: The dataset was made by a newer webtraj.
        """
        if fsync not in ("episode", "step", "never"):
            raise errors.InvalidInputError(
                f"fsync={fsync!r} is not known; expected 'episode', 'step' or 'never'."
            )
        self._layout = DatasetLayout(Path(path))
        self._layout.create()
        self._fsync = fsync
        self._blobs = BlobStore(self._layout.blobs)
        self._index = IndexWriter(self._layout.index)
        self._executor = concurrent.futures.ThreadPoolExecutor(
            _SEALING_THREADS, thread_name_prefix="webtraj-seal"
        )
        self._lock = threading.Lock()
        self._open: set[_JsonEpisodeRecorder] = set()
        self._sealing: set[concurrent.futures.Future[None]] = set()
        self._failures: list[errors.CollectorError] = []
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

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> _JsonEpisodeRecorder:
        """Begins the record of one episode; its journal is there when this returns.

        Raises:
            CollectorClosedError: The collector is closed, or was made by another process.
            CollectorError: The journal cannot be written, or the id is taken.
            InvalidEpisodeIdError: The id cannot name a file.
        """
        self._check_process()
        if self._closed:
            raise errors.CollectorClosedError(
                f"The collector of {str(self.path)!r} is closed; make a new one on the same folder."
            )
        if self._layout.episode(info.episode_id).exists():
            raise errors.CollectorError(
                f"The dataset {str(self.path)!r} has an episode {info.episode_id!r} already; "
                "every episode needs an id of its own."
            )
        recorder = _JsonEpisodeRecorder(self, info)
        with self._lock:
            self._open.add(recorder)
            _WITH_OPEN_EPISODES.add(self)
        return recorder

    async def drain(self) -> None:
        """Waits while more than a few ended episodes are still to be sealed.

        Raises:
            CollectorError: An episode that ended earlier could not be sealed; its journal is kept.
        """
        await self._wait_for_backlog(_BACKLOG)

    async def flush(self) -> None:
        """Waits until all ended episodes are sealed.

        Raises:
            CollectorError: One could not be sealed; its journal is kept.
        """
        await self._wait_for_backlog(0)

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
            concurrent.futures.wait(self._backlog())
            self._raise_failure()
        finally:
            self._release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def _wait_for_backlog(self, limit: int) -> None:
        self._check_process()
        # asyncio.wait leaves what it waits for alone when it is cancelled, as it must.
        while len(backlog := self._backlog()) > limit:
            await asyncio.wait(
                [asyncio.wrap_future(future) for future in backlog],
                return_when=asyncio.FIRST_COMPLETED,
            )
        self._raise_failure()

    def _backlog(self) -> set[concurrent.futures.Future[None]]:
        if not self._sealing:
            return set()
        with self._lock:
            self._sealing = {future for future in self._sealing if not future.done()}
            return set(self._sealing)

    def _raise_failure(self) -> None:
        """Raises what went wrong in the background since the last call, once."""
        if not self._failures:
            return
        with self._lock:
            failures, self._failures = self._failures, []
        if failures:
            first, *others = failures
            for other in others:
                first.add_note(f"And: {other}")
            raise first

    def _end_open(self, phase: trajectory_lib.Phase) -> None:
        end = trajectory_lib.EpisodeEnd(reason=trajectory_lib.EndReason.CLOSED, phase=phase)
        with self._lock:
            still_open = list(self._open)
        for recorder in still_open:
            try:
                recorder.end_episode(end)
            except errors.CollectorError as error:
                self._fail(error)

    def _release(self) -> None:
        self._unregister_at_exit()
        self._executor.shutdown(wait=False)
        if not self._backlog():
            self._index.close()

    def _ended(self, recorder: _JsonEpisodeRecorder) -> None:
        with self._lock:
            self._open.discard(recorder)
            if not self._open:
                _WITH_OPEN_EPISODES.discard(self)
            try:
                self._sealing.add(self._executor.submit(self._seal, recorder))
                return
            except RuntimeError:  # The interpreter is shutting down: no thread will do it.
                pass
        self._seal(recorder)

    def _seal(self, recorder: _JsonEpisodeRecorder) -> None:
        try:
            sealing.seal(
                self._layout,
                recorder.episode_id,
                index=self._index,
                blobs=recorder.unsynced_blobs,
                sync=self._fsync != "never",
            )
        except Exception as error:  # Reported by the next drain, flush or close.
            self._fail(
                errors.CollectorError(
                    f"The episode {recorder.episode_id!r} could not be sealed: "
                    f"{str(error).rstrip('.')}. Its journal is kept; "
                    f"run `webtraj recover {self.path}` once that is mended."
                )
            )
        finally:
            recorder.release()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise errors.CollectorClosedError(
                f"The collector of {str(self.path)!r} was made in another process; make a new one "
                "on the same folder."
            )

    def _fail(self, error: errors.CollectorError) -> None:
        with self._lock:
            self._failures.append(error)


class _JsonEpisodeRecorder:
    """Writes one episode's journal."""

    def __init__(
        self, collector: JsonTrajectoryCollector, info: trajectory_lib.EpisodeInfo
    ) -> None:
        self.episode_id = info.episode_id
        self._collector = collector
        self._sink = RecordingSink(collector._blobs)
        self._sync = collector._fsync == "step"
        self._ended = False
        path = collector._layout.journal(info.episode_id)
        begin = {"kind": "begin", "schema_version": SCHEMA_VERSION, "time": time.time()}
        try:
            line, unwritable = records.dumps_fields({**begin, "info": info}, self._sink)
            self._journal = JournalWriter(path, line)
        except OSError as error:
            raise self._failed("begun", error) from error
        # The episode has begun all the same, so the next call reports it.
        self._unreported = unwritable

    @property
    def unsynced_blobs(self) -> set[Any]:
        """The blobs that may not be on the disk yet."""
        return self._sink.blobs

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Replaces what is known of the episode, its id excepted."""
        info = dataclasses.replace(info, episode_id=self.episode_id)
        self._write({"kind": "info", "info": info})

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """Notes an action that is about to be handed to the environment."""
        fields = {"kind": "intent", "time": time.time(), "action": action}
        if decision is not None:
            fields["decision"] = decision
        self._write(fields)

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Records a timestep that the environment returned."""
        self._write({"kind": "step", "time": time.time(), "step": step})

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """Ends the record and has it sealed in the background."""
        self._check_open()
        try:
            self._write({"kind": "end", "time": time.time(), "end": end})
        finally:
            # What was recorded is sealed also when its end could not be: as CRASHED, then.
            self._ended = True
            self._collector._ended(self)

    def release(self) -> None:
        """Lets go of the journal, and so of its lock."""
        self._journal.close()

    def _write(self, fields: Mapping[str, Any]) -> None:
        self._check_open()
        try:
            line, unwritable = records.dumps_fields(fields, self._sink)
            if self._sync:
                self._sync_blobs()
            self._journal.append(line, sync=self._sync)
        except OSError as error:
            raise self._failed("recorded", error) from error
        if self._unreported:
            unwritable, self._unreported = self._unreported + unwritable, []
        self._report(unwritable)

    def _check_open(self) -> None:
        self._collector._check_process()
        if self._ended:
            raise errors.CollectorClosedError(
                f"The episode {self.episode_id!r} has ended; its record takes nothing more."
            )

    def _sync_blobs(self) -> None:
        while self._sink.blobs:
            path = self._collector._blobs.path(self._sink.blobs.pop())
            files.sync_file(path)
            files.sync_folder(path.parent)

    def _failed(self, what: str, error: OSError) -> errors.CollectorError:
        return errors.CollectorError(
            f"The episode {self.episode_id!r} could not be {what} in "
            f"{str(self._collector.path)!r}: {error}. What was recorded before is safe."
        )

    def _report(self, unwritable: list[str]) -> None:
        if unwritable:
            raise errors.UnwritableValueError(
                f"In the episode {self.episode_id!r} these values could not be kept, only their "
                f"repr: {'; '.join(unwritable[:5])}. Give plain data, numpy arrays, bytes or "
                "dataclasses (webtraj.serialization.values lists all kinds)."
            )


def _close_at_exit(collector: JsonTrajectoryCollector) -> Any:
    """Ends what is open when the process ends in good order; returns how to call that off."""
    reference = weakref.ref(collector)

    def close() -> None:
        target = reference()
        if target is None or target._process != os.getpid():
            return
        target._end_open(trajectory_lib.Phase.EXIT)
        for failure in target._failures:  # Nobody will ask any more.
            _LOGGER.error("%s", failure)

    atexit.register(close)
    return lambda: atexit.unregister(close)
