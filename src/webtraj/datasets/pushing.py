"""Pushing: sending what waits in a spool, once whatever kept it there is mended."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.collectors.backlog import Unsent
from webtraj.collectors.gate import Pauses
from webtraj.collectors.object_store import open_uploader
from webtraj.collectors.spool import Spool
from webtraj.collectors.uploading import UploadStatus
from webtraj.datasets.recovery import RecoveryReport, recover

__all__ = ["PushReport", "push"]


@dataclasses.dataclass(frozen=True, slots=True)
class PushReport:
    """What `push` found and did."""

    destination: str
    """The URL that the spool's episodes go to."""
    recovery: RecoveryReport
    """What was sealed first, and what could not be."""
    sent_episodes: int
    """Episodes that are in the bucket now, and gone from the spool."""
    sent_bytes: int
    """Bytes that the bucket took; what it had already does not count."""
    unsent: tuple[Unsent, ...]
    """Episodes that are still in the spool, and why."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left but what a living writer is recording."""
        return not (self.unsent or self.recovery.unreadable)


def push(
    spool: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    max_uploads: int = 16,
    pauses: Pauses | None = None,
    on_progress: Callable[[UploadStatus], object] | None = None,
) -> PushReport:
    """Sends every episode that waits in a spool; those of dead writers are sealed first.

    Safe to run at any time, beside collectors and other pushes, and again.

    Args:
        spool: The spool folder.
        storage_options: What `webtraj.storage.bucket.BucketStorage` takes; by default, and for what
            is not given, what the collector was given, its credentials excepted.
        max_uploads: Requests that are under way at once.
        pauses: How long to leave a bucket alone that does not answer, between the few attempts.
        on_progress: Called, on any thread, when something was sent or has failed.

    Raises:
        NotADatasetError: The folder holds no dataset.
        InvalidInputError: It is no spool, or the destination does not take the options.
        MissingDependencyError: A package for the bucket is not installed.
        UnsupportedSchemaError: It was written by a newer webtraj.
        CollectorError: The disk is full, or read-only; what waited was sent all the same.
    """
    opened, destination = Spool.open(spool)
    options = {**opened.options(), **(storage_options or {})}
    uploader = open_uploader(
        opened, destination, options, max_uploads=max_uploads, pauses=pauses or Pauses(cap=10.0)
    )
    with contextlib.ExitStack() as stack:
        stack.callback(uploader.stop)
        if on_progress is not None:
            report = on_progress
            stack.enter_context(uploader.watched(lambda: report(uploader.status())))
        seen: set[str] = set()

        def send() -> list[Unsent]:
            for episode_id in opened.waiting():
                if episode_id not in seen:
                    seen.add(episode_id)
                    uploader.add(episode_id, opened.size(episode_id))
            return uploader.wait()

        try:
            recovery = recover(Path(spool))
        except errors.CollectorError:
            send()  # A full disk has room then, perhaps for what is to be sealed.
            recovery = recover(Path(spool))
        unsent = send()
        opened.tidy()
        status = uploader.status()
    return PushReport(destination, recovery, status.sent_episodes, status.sent_bytes, tuple(unsent))
