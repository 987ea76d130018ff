"""Pushing: sending what waits in a spool, once whatever kept it there is mended, or elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.collectors.bucket import open_uploader
from webtraj.collectors.spool import Spool
from webtraj.collectors.uploading import Pauses, Unsent, UploadStatus
from webtraj.datasets.place import Place, create_place
from webtraj.datasets.recovery import RecoveryReport, recover
from webtraj.store.journal import claim
from webtraj.store.layout import DatasetHeader
from webtraj.store.places import is_url

__all__ = ["PushReport", "push"]


@dataclasses.dataclass(frozen=True, slots=True)
class PushReport:
    """What `push` found and did."""

    destination: str
    """Where the episodes went: a URL, or a folder's path."""
    recovery: RecoveryReport
    """What was sealed first, and what could not be."""
    sent_episodes: int
    """Episodes that are there now, and gone from the spool."""
    sent_bytes: int
    """Bytes that were written there; what it had already does not count."""
    unsent: tuple[Unsent, ...]
    """Episodes that are still in the spool, and why."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left but what a living writer is recording."""
        return not (self.unsent or self.recovery.unreadable)


def push(
    spool: str | os.PathLike[str],
    *,
    to: Place | None = None,
    storage_options: Mapping[str, Any] | None = None,
    max_uploads: int = 16,
    pauses: Pauses | None = None,
    on_progress: Callable[[UploadStatus], object] | None = None,
) -> PushReport:
    """Sends every episode that waits in a spool; those of dead writers are sealed first.

    Safe to run at any time, beside collectors and other pushes, and again. An episode leaves the
    spool when it is in the index of where it went.

    Args:
        spool: The spool folder.
        to: Where the episodes go instead, if their bucket is gone for good: a folder or URL, new,
            empty, or a dataset of the same format, which is added to. Nobody may be recording into
            the spool then, since a rollout takes what has left it for being in its bucket.
        storage_options: What `webtraj.store.bucket.BucketStorage` takes; by default, and for what
            is not given, what the collector was given, its credentials excepted. With `to`, these
            are its options, and the collector's do not count.
        max_uploads: Requests that are under way at once.
        pauses: How long to leave a bucket alone that does not answer, between the few attempts.
        on_progress: Called, on any thread, when something was sent or has failed.

    Raises:
        NotADatasetError: The folder holds no dataset; or `to` holds other things.
        InvalidInputError: It is no spool, or the destination does not take the options; or `to` is
            of another format or within the spool, or an episode is being recorded.
        MissingDependencyError: A package for the bucket is not installed.
        UnsupportedSchemaError: It was written by a newer webtraj.
        CollectorError: The disk is full, or read-only; what waited was sent all the same.
        StorageError: `to` cannot be written.
    """
    opened, destination = Spool.open(spool)
    if to is None:
        options = {**opened.options(), **(storage_options or {})}
    else:
        _check_outside(opened, to)
        _check_nobody_records(opened, to)
        place = create_place(to, DatasetHeader(format=opened.format), storage_options)
        destination, options = place.url, dict(storage_options or {})
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


def _check_outside(spool: Spool, to: Place) -> None:
    if not is_url(to) and Path(to).resolve().is_relative_to(spool.path.resolve()):
        raise errors.InvalidInputError(
            f"{os.fspath(to)!r:.200} is within the spool {str(spool.path)!r}, which "
            "goes when it is empty; name another folder."
        )


def _check_nobody_records(spool: Spool, to: Place) -> None:
    for episode_id in sorted(spool.layout.open_episodes()):
        # What is gone by now, its writer has sealed.
        with contextlib.suppress(FileNotFoundError), claim(spool.layout.journal(episode_id)) as its:
            if its:
                continue
            raise errors.InvalidInputError(
                f"The episode {episode_id!r} is being recorded into {str(spool.path)!r}, by a "
                f"process that takes what has left the spool for sent to its bucket. End it, and "
                f"then send what waits to {os.fspath(to)!r:.200}."
            )
