"""Sending of one episode from a spool to a bucket.

The order of effects is the same as in a folder: blobs, the episode, then, by the uploader, the
index line. Each may be repeated: keys are content hashes and unique ids, and existing objects are
not written again. An episode with the same id but other content is never overwritten.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from webtraj import errors
from webtraj.collectors.spool import Claim, Spool
from webtraj.store.blobs import Blob, BlobStore, blob_key
from webtraj.store.index import EpisodeSummary
from webtraj.store.layout import HEADER, DatasetHeader, episode_key
from webtraj.store.places import Storage

__all__ = [
    "BusyError",
    "ByteBudget",
    "EpisodeSender",
    "SentEpisode",
    "Share",
    "SharedWork",
    "StoppedError",
]

# Work in pieces, which idle threads may help with.

_T = TypeVar("_T")


class SharedWork(Generic[_T]):
    """One call for each of some items. Its creator also works, so it needs no other thread."""

    def __init__(self, call: Callable[[_T], None], items: Iterable[_T]) -> None:
        self._call = call
        self._items = iter(items)
        self._condition = threading.Condition()
        self._active = 0
        self._error: BaseException | None = None

    def help(self) -> None:
        """Make calls until none is left or one has failed. Raises nothing."""
        while True:
            with self._condition:
                try:
                    item = next(self._items)
                except StopIteration:
                    return
                self._active += 1
            try:
                self._call(item)
            except BaseException as error:
                with self._condition:
                    self._error = self._error or error
                    self._items = iter(())
            finally:
                with self._condition:
                    self._active -= 1
                    self._condition.notify_all()

    def finish(self) -> None:
        """Make calls too, and wait until all calls that were started have returned.

        Raises:
            BaseException: The error of the first call that failed; none was started after it.
        """
        self.help()
        with self._condition:
            while self._active:
                self._condition.wait()
        if self._error is not None:
            raise self._error


class ByteBudget:
    """Limits the bytes that threads hold in memory together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._condition = threading.Condition()

    @contextlib.contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Hold `size` bytes, once they are available or no other thread holds any."""
        with self._condition:
            while self._held and self._held + size > self._limit:
                self._condition.wait()
            self._held += size
        try:
            yield
        finally:
            with self._condition:
                self._held -= size
                self._condition.notify_all()


_KNOWN_LIMIT = 50_000
_LARGE = 1 << 20
"""The size in bytes from which it pays to check for a blob before sending it."""
_MEMORY = 256 << 20
"""The limit of bytes of blobs and episodes in memory, unless a single one is larger."""


class BusyError(errors.CollectorError):
    """Another thread or process is sending the episode."""


class StoppedError(errors.CollectorError):
    """The uploader is stopping; the episode was not sent."""


@dataclasses.dataclass(frozen=True, slots=True)
class SentEpisode:
    """An episode that is in the bucket, but not its index line yet."""

    summary: EpisodeSummary
    size: int
    """Bytes sent for it."""
    claim: Claim


Share = Callable[[Callable[[Blob], None], Sequence[Blob]], None]
"""Runs a call for each blob, possibly several at once; raises an error of one that failed."""


class EpisodeSender:
    """Sends a spool's episodes. Safe to share between threads."""

    def __init__(self, spool: Spool, storage: Storage) -> None:
        self.spool = spool
        self.storage = storage
        self._budget = ByteBudget(_MEMORY)
        self._known: set[bytes] = set()
        self._doubtful: set[str] = set()
        self._same_blob = [threading.Lock() for _ in range(256)]
        self._prepared = False
        self._lock = threading.Lock()

    def check_destination(self) -> bool:
        """Check that the bucket's dataset, if any, accepts episodes of the spool's format.

        Returns:
            Whether it has a dataset.

        Raises:
            InvalidInputError: Its dataset is of another format.
            DatasetError: Its header cannot be read, or is from a newer webtraj.
            StorageError: The bucket cannot be read.
        """
        try:
            content = self.storage.read(HEADER)
        except errors.StorageMissingError:
            return False
        found = DatasetHeader.from_bytes(content, f"{self.storage.url}/{HEADER}")
        if found != DatasetHeader(format=self.spool.format):
            kept = "is a spool" if found.destination else f"has format {found.format!r}"
            raise errors.InvalidInputError(
                f"The dataset {self.storage.url!r} {kept}, so it cannot take episodes of format "
                f"{self.spool.format!r}. Choose another prefix, or collect in that format."
            )
        return True

    def prepare(self) -> None:
        """Make the bucket a dataset, unless it is one already.

        Raises:
            InvalidInputError: It is a dataset of another format.
            DatasetError: Its header cannot be read, or is from a newer webtraj.
            StorageError: The bucket cannot be read or written.
        """
        with self._lock:
            if self._prepared:
                return
            if not self.check_destination():
                header = DatasetHeader(format=self.spool.format)
                # If another writer is faster, its header counts.
                with contextlib.suppress(errors.StorageConflictError):
                    self.storage.write(HEADER, header.to_bytes(), overwrite=False)
                self.check_destination()
            self._prepared = True

    def send(
        self, episode_id: str, *, share: Share, stopped: Callable[[], bool]
    ) -> SentEpisode | None:
        """Send an episode's blobs, and then its file.

        Args:
            episode_id: The episode.
            share: Sends several blobs at once.
            stopped: Returns whether to give up.

        Returns:
            The episode, still claimed; None if another process has sent it.

        Raises:
            BusyError: Another process or thread is sending it.
            StoppedError: The sender was stopped.
            StorageError: The bucket does not accept it.
            CorruptDataError: The spooled files are damaged.
            CollectorError: The bucket has another episode with the same id.
            OSError: The spooled files cannot be read.
        """
        try:
            claim = self.spool.claim(episode_id)
        except FileNotFoundError:
            return None
        if claim is None:
            raise BusyError(f"The episode {episode_id!r} is being sent by another process.")
        try:
            # Blobs in files of their own hold memory one by one; to hold more could deadlock.
            size = self.spool.size(episode_id) if self.spool.self_contained else 0
            with self._budget.hold(size):
                episode = self.spool.read(episode_id)
                sizes: list[int] = []

                def send_blob(blob: Blob) -> None:
                    if stopped():
                        raise StoppedError(f"The episode {episode_id!r} was not sent.")
                    sizes.append(self._send_blob(blob, episode.store))

                share(send_blob, episode.blobs)
                key = episode_key(episode_id, self.spool.format)
                sizes.append(self._send_episode(key, episode.content))
            return SentEpisode(episode.summary, sum(sizes), claim)
        except BaseException:
            claim.release()
            raise

    def _send_blob(self, blob: Blob, store: BlobStore) -> int:
        """Send a blob; return the number of bytes sent."""
        key = blob_key(blob)
        name = bytes.fromhex(blob.sha256) + blob.ext.encode()
        with self._same_blob[name[0]]:  # Episodes that share a blob send it once.
            return 0 if name in self._known else self._send_unknown(blob, key, name, store)

    def _send_unknown(self, blob: Blob, key: str, name: bytes, store: BlobStore) -> int:
        # A blob missing here was sent: removing its episode from the spool was interrupted.
        ask = blob.size >= _LARGE or not store.holds(blob)
        if ask and key not in self._doubtful and self.storage.size(key) == blob.size:
            self._note(name)
            return 0
        with self._budget.hold(blob.size):
            sent = self._write_blob(key, store.read(blob))
        self._doubtful.discard(key)
        self._note(name)
        return sent

    def _write_blob(self, key: str, data: bytes) -> int:
        # A multipart upload cannot be conditional.
        replaces = len(data) >= _LARGE or key in self._doubtful
        try:
            self.storage.write(key, data, overwrite=True if replaces else None)
        except errors.StorageConflictError:
            if self.storage.read(key) == data:
                return 0
            self.storage.write(key, data)  # The object is damaged: its name is its content's hash.
        except errors.StorageError:
            self._doubtful.add(key)  # Part of it may have arrived.
            raise
        return len(data)

    def _note(self, name: bytes) -> None:
        if len(self._known) >= _KNOWN_LIMIT:
            self._known.clear()
        self._known.add(name)

    def _send_episode(self, key: str, content: bytes) -> int:
        """Send an episode's file; return the number of bytes sent."""
        try:
            if len(content) < _LARGE:
                self.storage.write(key, content, overwrite=False)
                return len(content)
            if self.storage.size(key) is None:  # A multipart upload cannot be conditional.
                self.storage.write(key, content)
                return len(content)
        except errors.StorageConflictError:
            pass
        if self.storage.read(key) != content:
            raise errors.CollectorError(
                f"{self.storage.url!r} already has another episode as {key!r}, which is not "
                "overwritten. Every episode needs its own id."
            )
        return 0
