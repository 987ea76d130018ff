"""The recorder of collectors that keep a journal: one line written before each call returns."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.store import files, records
from webtraj.store.blobs import Blob, BlobStore, RecordingSink
from webtraj.store.journal import JournalWriter
from webtraj.store.layout import SCHEMA_VERSION, DatasetLayout

__all__ = ["JournalRecorder", "check_process"]

_LOGGER = logging.getLogger(__name__)
_WARNED_OF: set[str] = set()
_MOST_WARNINGS = 20


class JournalRecorder:
    """Records one episode to its journal."""

    def __init__(
        self,
        info: trajectory_lib.EpisodeInfo,
        *,
        layout: DatasetLayout,
        blobs: BlobStore,
        sync: bool,
        on_end: Callable[[JournalRecorder], None],
    ) -> None:
        """Begins the journal.

        Args:
            info: What is known of the episode.
            layout: The dataset.
            blobs: Takes long bytes and text.
            sync: Whether each record waits for the disk.
            on_end: Called when the episode has ended; it must have `release` called in the end.

        Raises:
            CollectorError: The journal cannot be written.
        """
        self.episode_id = info.episode_id
        self._root = layout.root
        self._blobs = blobs
        self._sink = RecordingSink(blobs)
        self._sync = sync
        self._on_end = on_end
        self._ended = False
        self._process = os.getpid()
        path = layout.journal(info.episode_id)
        begin = {"kind": "begin", "schema_version": SCHEMA_VERSION, "time": trajectory_lib.now()}
        try:
            line, kept_as_repr = records.dumps_fields({**begin, "info": info}, self._sink)
            self._journal = JournalWriter(path, line)
        except OSError as error:
            raise self._failed("begun", error) from error
        _warn(kept_as_repr)

    @property
    def unsynced_blobs(self) -> set[Blob]:
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
        fields = {"kind": "intent", "time": trajectory_lib.now(), "action": action}
        if decision is not None:
            fields["decision"] = decision
        self._write(fields)

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Records a timestep that the environment returned."""
        self._write({"kind": "step", "time": trajectory_lib.now(), "step": step})

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """Ends the record and has it sealed in the background."""
        self._check_open()
        try:
            self._write({"kind": "end", "time": trajectory_lib.now(), "end": end})
        finally:
            # What was recorded is sealed also when its end could not be: as CRASHED, then.
            self._ended = True
            self._on_end(self)

    def release(self) -> None:
        """Lets go of the journal, and so of its lock."""
        self._journal.close()

    def _write(self, fields: Mapping[str, Any]) -> None:
        self._check_open()
        try:
            line, kept_as_repr = records.dumps_fields(fields, self._sink)
            if self._sync:
                self._sync_blobs()
            self._journal.append(line, sync=self._sync)
        except OSError as error:
            raise self._failed("recorded", error) from error
        _warn(kept_as_repr)

    def _check_open(self) -> None:
        check_process(self._process, self._root)
        if self._ended:
            raise errors.CollectorClosedError(
                f"The episode {self.episode_id!r} has ended; its record takes nothing more."
            )

    def _sync_blobs(self) -> None:
        while self._sink.blobs:
            path = self._blobs.path(self._sink.blobs.pop())
            files.sync_file(path)
            files.sync_folder(path.parent)

    def _failed(self, what: str, error: OSError) -> errors.CollectorError:
        return errors.CollectorError(
            f"The episode {self.episode_id!r} could not be {what} in "
            f"{str(self._root)!r}: {error}. What was recorded before is safe."
        )


def _warn(kept_as_repr: Sequence[str]) -> None:
    """Log what is kept as its repr only, once for each type; the record says it each time."""
    for value in kept_as_repr:
        kind = value.partition(": ")[2].partition(",")[0]
        if kind not in _WARNED_OF and len(_WARNED_OF) < _MOST_WARNINGS:
            _WARNED_OF.add(kind)
            _LOGGER.warning("Of some values only the repr is recorded, such as %s", value)


def check_process(made_in: int, root: Path) -> None:
    """Checks that this is the process in which a collector was made.

    A forked child has the parent's files and locks, but none of its threads.

    Raises:
        CollectorClosedError: It is another one.
    """
    if made_in != os.getpid():
        raise errors.CollectorClosedError(
            f"The collector of {str(root)!r} was made in another process; make a new one on the "
            "same folder."
        )
