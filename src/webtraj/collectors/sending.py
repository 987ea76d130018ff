"""Sending: one episode from a spool into a bucket.

The order of effects is that of a folder: blobs, then the episode, then, by the uploader, the index
line. Each may be repeated: keys are content hashes and unique ids, and what is there already is not
written again. An episode of the same id with another content is never overwritten.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

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

# Work that is cut in pieces, which idle threads may help with.

_T = TypeVar("_T")


class SharedWork(Generic[_T]):
    """One call for each of some items. Whoever began it also works, so it needs no other thread."""

    def __init__(self, call: Callable[[_T], None], items: Iterable[_T]) -> None:
        self._call = call
        self._items = iter(items)
        self._condition = threading.Condition()
        self._active = 0
        self._error: BaseException | None = None

    def help(self) -> None:
        """Makes calls until none is left to begin, or one has failed. Raises nothing."""
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
        """Works too, and waits until all calls that were begun have returned.

        Raises:
            BaseException: What the first call that failed has raised; no call was begun after it.
        """
        self.help()
        with self._condition:
            while self._active:
                self._condition.wait()
        if self._error is not None:
            raise self._error


class ByteBudget:
    """Keeps the bytes that threads hold in memory together below a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._condition = threading.Condition()

    def take(self, size: int) -> None:
        """Waits until there is room for `size` bytes, or until nobody else holds any."""
        with self._condition:
            while self._held and self._held + size > self._limit:
                self._condition.wait()
            self._held += size

    def give_back(self, size: int) -> None:
        """Makes room again."""
        with self._condition:
            self._held -= size
            self._condition.notify_all()


_KNOWN_LIMIT = 50_000
_LARGE = 1 << 20
"""Bytes from which on it pays to ask for a blob before sending it."""
_MEMORY = 256 << 20
"""Bytes of blobs and episodes that are in memory at once, unless a single one is larger."""


class BusyError(errors.CollectorError):
    """Another thread or process is sending the episode."""


class StoppedError(errors.CollectorError):
    """The uploader stops; the episode was not sent."""


@dataclasses.dataclass(frozen=True, slots=True)
class SentEpisode:
    """An episode that is in the bucket, and whose index line is not yet."""

    summary: EpisodeSummary
    size: int
    """Bytes that were sent for it."""
    claim: Claim


class Share(Protocol):
    """Runs a call for each blob, perhaps several at once."""

    def __call__(self, call: Callable[[Blob], None], items: Iterable[Blob], /) -> None:
        """Returns when all calls have; raises what one of them raised."""


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
        """Checks that the bucket, if it holds a dataset, takes episodes of the spool's format.

        Returns:
            Whether it holds a dataset.

        Raises:
            InvalidInputError: Its dataset is of another format.
            DatasetError: Its header cannot be read, or was made by a newer webtraj.
            StorageError: It cannot be asked.
        """
        try:
            content = self.storage.read(HEADER)
        except errors.StorageMissingError:
            return False
        found = DatasetHeader.from_bytes(content, f"{self.storage.url}/{HEADER}")
        if found != DatasetHeader(format=self.spool.format):
            kept = "is a spool" if found.destination else f"keeps format {found.format!r}"
            raise errors.InvalidInputError(
                f"The dataset {self.storage.url!r} {kept}, and cannot take episodes of format "
                f"{self.spool.format!r}. Name another prefix, or collect in that format."
            )
        return True

    def prepare(self) -> None:
        """Makes the bucket a dataset, unless it is one.

        Raises:
            InvalidInputError: It is one, of another format.
            DatasetError: Its header cannot be read, or was made by a newer webtraj.
            StorageError: It cannot be asked, or written.
        """
        if self._prepared:
            return
        with self._lock:
            if self._prepared:
                return
            if not self.check_destination():
                header = DatasetHeader(format=self.spool.format)
                # Another writer may be faster; then its header counts.
                with contextlib.suppress(errors.StorageConflictError):
                    self.storage.write(HEADER, header.to_bytes(), overwrite=False)
                self.check_destination()
            self._prepared = True

    def send(
        self, episode_id: str, *, share: Share, stopped: Callable[[], bool]
    ) -> SentEpisode | None:
        """Sends an episode's blobs, and then its file.

        Args:
            episode_id: The episode.
            share: Sends several blobs at once.
            stopped: Says whether to give up.

        Returns:
            The episode, which stays claimed; None if another has sent it.

        Raises:
            BusyError: Another is sending it.
            StoppedError: It was given up.
            StorageError: The bucket does not take it.
            CorruptDataError: What is spooled cannot be read any more.
            CollectorError: The bucket holds another episode of the same id.
            OSError: What is spooled cannot be read.
        """
        try:
            claim = self.spool.claim(episode_id)
        except FileNotFoundError:
            return None
        if claim is None:
            raise BusyError(f"The episode {episode_id!r} is being sent by another process.")
        try:
            with self._memory_for(episode_id):
                episode = self.spool.read(episode_id)
                store = self.spool.blobs(episode_id)
                sizes: list[int] = []

                def send_blob(blob: Blob) -> None:
                    if stopped():
                        raise StoppedError(f"The episode {episode_id!r} was not sent.")
                    sizes.append(self._send_blob(blob, store))

                share(send_blob, episode.blobs)
                key = episode_key(episode_id, self.spool.format)
                sizes.append(self._send_episode(key, episode.content))
            return SentEpisode(episode.summary, sum(sizes), claim)
        except BaseException:
            claim.release()
            raise

    def _send_blob(self, blob: Blob, store: BlobStore) -> int:
        """Returns how many bytes it took."""
        key = blob_key(blob)
        name = bytes.fromhex(blob.sha256) + blob.ext.encode()
        with self._same_blob[name[0]]:  # Episodes that share a blob send it once.
            return 0 if name in self._known else self._send_unknown(blob, key, name, store)

    def _send_unknown(self, blob: Blob, key: str, name: bytes, store: BlobStore) -> int:
        # What was removed here is there: its episode was being taken away when that was broken off.
        ask = blob.size >= _LARGE or not store.holds(blob)
        if ask and key not in self._doubtful and self.storage.size(key) == blob.size:
            self._note(name)
            return 0
        with self._memory(blob.size):
            sent = self._write_blob(key, store.read(blob))
        self._doubtful.discard(key)
        self._note(name)
        return sent

    def _write_blob(self, key: str, data: bytes) -> int:
        # What goes in parts takes no condition.
        replaces = len(data) >= _LARGE or key in self._doubtful
        try:
            self.storage.write(key, data, overwrite=True if replaces else None)
        except errors.StorageConflictError:
            if self.storage.read(key) == data:
                return 0
            self.storage.write(key, data)  # It is damaged: its name tells its content.
        except errors.StorageError:
            self._doubtful.add(key)  # Perhaps something of it did arrive.
            raise
        return len(data)

    def _note(self, name: bytes) -> None:
        if len(self._known) >= _KNOWN_LIMIT:
            self._known.clear()
        self._known.add(name)

    def _send_episode(self, key: str, content: bytes) -> int:
        """Returns how many bytes it took."""
        try:
            if len(content) < _LARGE:
                self.storage.write(key, content, overwrite=False)
                return len(content)
            if self.storage.size(key) is None:  # What goes in parts takes no condition.
                self.storage.write(key, content)
                return len(content)
        except errors.StorageConflictError:
            pass
        if self.storage.read(key) != content:
            raise errors.CollectorError(
                f"{self.storage.url!r} holds another episode as {key!r}, which is not "
                "overwritten; every episode needs an id of its own."
            )
        return 0

    def _memory_for(self, episode_id: str) -> contextlib.AbstractContextManager[None]:
        """Returns what holds the memory that an episode's file needs, if it holds its blobs too."""
        if self.spool.self_contained:
            return self._memory(self.spool.size(episode_id))
        return contextlib.nullcontext()  # Blobs need it: to hold any might wait for ever.

    @contextlib.contextmanager
    def _memory(self, size: int) -> Iterator[None]:
        self._budget.take(size)
        try:
            yield
        finally:
            self._budget.give_back(size)
