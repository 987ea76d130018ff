"""Uploading: the threads that send a spool's episodes, and what they do when the bucket fails.

While the bucket answers, up to `max_uploads` requests are under way, and index lines go in batches.
When it does not (away, throttled, denied, missing: it may heal), the *gate* closes: only one
request at a time is tried, a probe, each after a longer pause, and with another episode each, so
that no single one can stand in the way. The first that succeeds opens the gate again. What fails
for its own sake (its file is damaged, its id is taken) is set aside and reported, and left where it
is. All that is kept in memory of an episode that waits is its id and size.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from webtraj import errors
from webtraj.collectors.index import index_file_name
from webtraj.collectors.layout import INDEX
from webtraj.collectors.sending import BusyError, EpisodeSender, SentEpisode, StoppedError
from webtraj.collectors.shared_work import SharedWork
from webtraj.serialization.blobs import Blob

__all__ = ["Flush", "Pauses", "Unsent", "UploadStatus", "Uploader"]

_LOGGER = logging.getLogger(__name__)

_MAY_HEAL = (
    errors.StorageUnavailableError,
    errors.StorageDeniedError,
    errors.StorageMissingError,
)
_ATTEMPTS = 3
"""For an episode that fails in a way that does not heal by itself, before it is set aside."""
_FLUSH_PROBES = 3
"""Probes in a row that must fail before a flush gives up."""
_BATCH = 100
"""Index lines that go together; each episode's file is kept open, and locked, until then."""
_BUSY_PAUSE = 0.25
_BUSY_LIMIT = 60.0
"""Seconds for which an episode may be in another process's hands before it is set aside."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long to leave a bucket alone that does not answer: full jitter, up to a cap."""

    first: float = 1.0
    """The longest first pause, in seconds; each further one may be twice as long."""
    cap: float = 60.0
    """The longest pause of all, in seconds."""
    uniform: Callable[[float, float], float] = random.uniform

    def after(self, failures: int) -> float:
        """Returns the seconds to wait after so many failures in a row, at least one."""
        return self.uniform(0.0, min(self.cap, self.first * 2.0 ** min(failures - 1, 30)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UploadStatus:
    """Where a collector's episodes are."""

    open_episodes: int = 0
    """Begun and not ended."""
    unsent_episodes: int = 0
    """Ended, and not in the bucket with their index line; `failed_episodes` among them."""
    failed_episodes: int = 0
    """Set aside, for a reason of their own; `webtraj push` tries them again."""
    queued_bytes: int = 0
    """Of the unsent episodes, blobs included."""
    oldest_unsent: float | None = None
    """Seconds since the oldest unsent episode was sealed, or found; None if none is unsent."""
    sent_episodes: int = 0
    """Since the collector was made."""
    sent_bytes: int = 0
    """Bytes that the bucket took, what it had already not counted."""
    healthy: bool = True
    """Whether the last request that tells was answered; True before the first."""
    last_error: str = ""
    """What the last failure said; empty if there was none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unsent:
    """An episode that is not in the bucket."""

    episode_id: str
    size: int
    """In bytes, blobs included."""
    reason: str
    """What failed; empty if its turn has not come."""


@dataclasses.dataclass(slots=True)
class _Entry:
    """An episode that waits, or is being sent."""

    episode_id: str
    size: int
    number: int
    since: float
    attempts: int = 0
    busy_since: float = 0.0
    error: str = ""


@dataclasses.dataclass(slots=True)
class _Shard:
    """Index lines that go together, and the episodes that they are of."""

    key: str
    sent: list[SentEpisode]


class Uploader:
    """Sends episodes on threads of its own, which begin with the first one."""

    def __init__(
        self,
        sender: EpisodeSender,
        *,
        max_uploads: int = 16,
        index_interval: float = 5.0,
        pauses: Pauses | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initializes the uploader.

        Args:
            sender: Sends one episode.
            max_uploads: Requests that are under way at once.
            index_interval: Seconds after which an index line goes even if few go with it.
            pauses: How long to leave a bucket alone that does not answer.
            clock: Tells the seconds.
        """
        self._sender = sender
        self._max_uploads = max_uploads
        self._index_interval = index_interval
        self._pauses = pauses or Pauses()
        self._clock = clock

        self._lock = threading.RLock()
        self._work_came = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._stopped = False
        self._watchers: set[Callable[[], object]] = set()

        self._entries: dict[str, _Entry] = {}
        self._failed: dict[str, _Entry] = {}
        self._number = 0
        self._waiting: collections.deque[_Entry] = collections.deque()
        self._busy: collections.deque[tuple[float, _Entry]] = collections.deque()
        self._questions: collections.deque[Callable[[], None]] = collections.deque()
        self._helps: collections.deque[SharedWork[Blob]] = collections.deque()
        self._sending = 0
        self._batch: list[SentEpisode] = []
        self._batch_due = 0.0
        self._shards: collections.deque[_Shard] = collections.deque()
        self._flushes = 0

        self._healthy = True
        self._probing = False
        self._next_probe = 0.0
        self._pause_level = 0
        self._failures = 0
        self._successes = 0
        self._queued_bytes = 0
        self._failed_bytes = 0
        self._sent_episodes = 0
        self._sent_bytes = 0
        self._last_error = ""

    # What others ask and tell.

    @property
    def url(self) -> str:
        """Where the episodes go; holds no credentials."""
        return self._sender.storage.url

    def check(self, timeout: float) -> None:
        """Waits a while for the bucket to say whether it takes episodes of the spool's format.

        A bucket that cannot be asked makes no difference, yet.

        Raises:
            InvalidInputError: It holds a dataset of another format.
            DatasetError: It holds one that cannot be read, or was made by a newer webtraj.
        """
        if timeout <= 0:
            return
        answers: list[Exception | None] = []

        def ask() -> None:
            answer: Exception | None = None
            try:
                self._sender.check_destination()
            except Exception as error:
                answer = error
            with self._lock:
                answers.append(answer)
                self._progress.notify_all()

        with self._lock:
            self._questions.append(ask)
            self._begin_threads()
            self._work_came.notify()
            self._progress.wait_for(lambda: answers, timeout)
        failure = answers[0] if answers else None
        if isinstance(failure, (errors.InvalidInputError, errors.DatasetError)):
            raise failure
        if failure is not None or not answers:
            why = str(failure or f"it has not answered in {timeout:g} s.")
            _LOGGER.warning(
                "%s cannot be asked: %s What is collected waits in %s.",
                self.url, why, self._sender.spool.path,
            )  # fmt: skip

    def add(self, episode_id: str, size: int) -> None:
        """Has an episode sent that waits in the spool."""
        with self._lock:
            self._number += 1
            entry = _Entry(episode_id, size, self._number, self._clock())
            self._entries[episode_id] = entry
            self._queued_bytes += size
            self._waiting.append(entry)
            self._begin_threads()
            self._work_came.notify()

    def status(self, *, open_episodes: int = 0) -> UploadStatus:
        """Returns where the episodes are."""
        with self._lock:
            oldest = [next(iter(them.values())) for them in (self._entries, self._failed) if them]
            age = self._clock() - min(entry.since for entry in oldest) if oldest else None
            return UploadStatus(
                open_episodes=open_episodes,
                unsent_episodes=len(self._entries) + len(self._failed),
                failed_episodes=len(self._failed),
                queued_bytes=self._queued_bytes + self._failed_bytes,
                oldest_unsent=age,
                sent_episodes=self._sent_episodes,
                sent_bytes=self._sent_bytes,
                healthy=self._healthy,
                last_error=self._last_error,
            )

    def unsent(self) -> list[Unsent]:
        """Returns the episodes that are not in the bucket, those that were set aside first."""
        return self._unsent(self._number)

    def _unsent(self, last: int) -> list[Unsent]:
        with self._lock:
            entries = [*self._failed.values(), *self._entries.values()]
            return [
                Unsent(entry.episode_id, entry.size, entry.error)
                for entry in entries
                if entry.number <= last
            ]

    def is_behind(self, limit: int) -> bool:
        """Returns whether more than `limit` bytes wait although the bucket takes them."""
        return self._healthy and not self._stopped and self._queued_bytes > limit

    @contextmanager
    def watched(self, callback: Callable[[], object]) -> Iterator[None]:
        """Has `callback` called, on any thread, when anything has changed."""
        with self._lock:
            self._watchers.add(callback)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.discard(callback)

    @contextmanager
    def flushing(self) -> Iterator[Flush]:
        """Hurries: index lines need not wait for more, nor the next probe for its time."""
        with self._lock:
            flush = Flush(self, self._number)
            self._flushes += 1
            self._pause_level = 0
            self._next_probe = 0.0
            self._work_came.notify_all()
        try:
            yield flush
        finally:
            with self._lock:
                self._flushes -= 1

    def wait(self, timeout: float | None = None) -> list[Unsent]:
        """Waits until all that was added is sent, set aside, or given up for now.

        Returns:
            What is not in the bucket.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.flushing() as flush, self._lock:
            while not flush.done():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._progress.wait(left)
            return flush.unsent()

    def stop(self, timeout: float | None = None) -> bool:
        """Sends nothing more, and waits for requests that are under way. Idempotent.

        Returns:
            Whether all threads have ended.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._stopped = True
            threads = list(self._threads)
            self._work_came.notify_all()
            self._progress.notify_all()
        for thread in threads:
            thread.join(None if deadline is None else max(deadline - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in threads)

    # The threads.

    def _begin_threads(self) -> None:
        """Begins threads for what those that are idle cannot do. Called with the lock held."""
        work = (
            len(self._questions) + len(self._helps) + (len(self._waiting) if self._healthy else 1)
        )
        wanted = min(work - self._idle, self._max_uploads - len(self._threads))
        for _ in range(0 if self._stopped else wanted):
            thread = threading.Thread(target=self._work, name="webtraj-upload", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # The interpreter is shutting down: the spool keeps it.
                return
            self._threads.add(thread)

    def _work(self) -> None:
        while (task := self._next()) is not None:
            task()
        with self._lock:
            self._threads.discard(threading.current_thread())
            if not self._threads:
                self._let_go()

    def _next(self) -> Callable[[], None] | None:
        """Waits for the next piece of work; None if there will be none."""
        with self._lock:
            while not self._stopped:
                task, seconds = self._choose()
                if task is not None:
                    return task
                self._idle += 1
                self._work_came.wait(seconds)
                self._idle -= 1
            return None

    def _choose(self) -> tuple[Callable[[], None] | None, float | None]:
        """Returns what to do, or else after how many seconds to look again."""
        if self._questions:
            return self._questions.popleft(), None
        if self._helps:
            return self._helps.popleft().help, None
        now = self._clock()
        while self._busy and self._busy[0][0] <= now:
            self._waiting.append(self._busy.popleft()[1])
        self._cut_batch(now)
        if not (self._shards or self._waiting):
            due = [self._batch_due] if self._batch else []
            due += [self._busy[0][0]] if self._busy else []
            return None, max(min(due) - now, 0.0) if due else None
        if not self._healthy:
            if self._probing or now < self._next_probe:
                return None, None if self._probing else self._next_probe - now
            self._probing = True
        self._sending += 1
        if self._shards:
            return functools.partial(self._send_shard, self._shards.popleft(), self._probing), None
        return functools.partial(self._send_episode, self._waiting.popleft(), self._probing), None

    def _cut_batch(self, now: float) -> None:
        """Makes a shard of the batch, if it is full, or old, or if nothing is to come."""
        nothing_comes = self._flushes and not (self._waiting or self._sending)
        while self._batch and (
            len(self._batch) >= _BATCH or nothing_comes or now >= self._batch_due
        ):
            sent, self._batch = self._batch[:_BATCH], self._batch[_BATCH:]
            self._shards.append(_Shard(INDEX + index_file_name(), sent))

    # What they do.

    def _send_episode(self, entry: _Entry, probe: bool) -> None:
        try:
            self._sender.prepare()
        except Exception as error:  # Of whatever kind, it is no single episode's.
            with self._finished(probe):
                entry.error = str(error)
                self._waiting.append(entry)
                self._close_gate(error, probe)
            return
        try:
            sent = self._sender.send(
                entry.episode_id, share=self._share, stopped=lambda: self._stopped
            )
        except StoppedError:
            with self._finished(probe):
                self._waiting.appendleft(entry)
        except BusyError as error:
            with self._finished(probe):
                self._note_busy(entry, str(error))
        except errors.StorageError as error:
            with self._finished(probe):
                entry.error = str(error)
                entry.attempts += not isinstance(error, _MAY_HEAL)
                if entry.attempts >= _ATTEMPTS:
                    self._set_aside(entry)
                else:
                    self._waiting.append(entry)
                self._close_gate(error, probe)
        except Exception as error:
            known = isinstance(error, (errors.WebtrajError, OSError))
            _LOGGER.error(
                "The episode %r cannot be sent: %s It is left in %s.",
                entry.episode_id, error, self._sender.spool.path, exc_info=not known,
            )  # fmt: skip
            with self._finished(probe):
                entry.error = str(error) if known else repr(error)
                self._last_error = entry.error
                self._set_aside(entry)
        else:
            with self._finished(probe):
                if sent is None:  # Another has sent it, or it is no more.
                    self._forget(entry.episode_id)
                    return
                self._open_gate()
                if not self._batch:
                    self._batch_due = self._clock() + self._index_interval
                self._batch.append(sent)

    def _send_shard(self, shard: _Shard, probe: bool) -> None:
        content = b"".join(sent.summary.to_line() for sent in shard.sent)
        try:
            self._sender.storage.write(shard.key, content)
        except Exception as error:
            with self._finished(probe):
                self._shards.appendleft(shard)
                self._close_gate(error, probe)
            return
        for sent in shard.sent:
            self._remove(sent)
        with self._finished(probe):
            self._open_gate()
            for sent in shard.sent:
                self._forget(sent.summary.episode_id)
                self._sent_episodes += 1
                self._sent_bytes += sent.size

    def _remove(self, sent: SentEpisode) -> None:
        try:
            self._sender.spool.remove(sent.summary.episode_id)
        except OSError as error:
            _LOGGER.error(
                "The episode %r is in the bucket, but cannot be removed from %s: %s. It will be "
                "found to be there already.",
                sent.summary.episode_id, self._sender.spool.path, error,
            )  # fmt: skip
        finally:
            sent.claim.release()

    def _share(self, call: Callable[[Blob], None], items: Iterable[Blob]) -> None:
        blobs = list(items)
        work = SharedWork(call, blobs)
        others = min(len(blobs), self._max_uploads) - 1
        if others > 0:
            with self._lock:
                self._helps.extend([work] * others)
                self._begin_threads()
                self._work_came.notify(others)
        work.finish()

    # What becomes of it. All of these are called with the lock held.

    @contextmanager
    def _finished(self, probe: bool) -> Iterator[None]:
        """Holds the lock while what has become of a piece of work is noted, and tells everybody."""
        with self._lock:
            try:
                yield
            finally:
                self._sending -= 1
                if probe:
                    self._probing = False
                    self._work_came.notify_all()
                self._progress.notify_all()
            watchers = list(self._watchers)
        for watcher in watchers:
            with suppress(RuntimeError):  # An event loop that is closed.
                watcher()

    def _open_gate(self) -> None:
        self._successes += 1
        if not self._healthy:
            self._healthy = True
            self._pause_level = 0
            _LOGGER.warning("%s takes episodes again.", self._sender.storage.url)

    def _close_gate(self, error: Exception, probe: bool) -> None:
        self._last_error = str(error)
        if self._healthy:
            _LOGGER.warning(
                "%s takes no episodes: %s They are kept in %s, and sent once it does.",
                self._sender.storage.url, error, self._sender.spool.path,
            )  # fmt: skip
        elif not probe:
            return  # It was under way when the gate closed, and tells nothing new.
        self._healthy = False
        self._failures += 1
        self._pause_level += 1
        self._next_probe = self._clock() + self._pauses.after(self._pause_level)

    def _note_busy(self, entry: _Entry, reason: str) -> None:
        now = self._clock()
        entry.error = reason
        entry.busy_since = entry.busy_since or now
        if now - entry.busy_since > _BUSY_LIMIT:
            self._set_aside(entry)
        else:
            self._busy.append((now + _BUSY_PAUSE, entry))

    def _set_aside(self, entry: _Entry) -> None:
        self._forget(entry.episode_id)
        self._failed[entry.episode_id] = entry
        self._failed_bytes += entry.size

    def _forget(self, episode_id: str) -> None:
        self._queued_bytes -= self._entries.pop(episode_id).size

    def _let_go(self) -> None:
        """Lets others send what was not; nothing is lost, since the spool has it."""
        for sent in [*self._batch, *(sent for shard in self._shards for sent in shard.sent)]:
            sent.claim.release()
        self._batch.clear()
        self._shards.clear()


class Flush:
    """Whether what an uploader had to send when the flush began is done with."""

    def __init__(self, uploader: Uploader, number: int) -> None:
        self._uploader = uploader
        self._number = number
        self._failures = uploader._failures
        self._successes = uploader._successes

    def unsent(self) -> list[Unsent]:
        """Returns which of them are not in the bucket."""
        return self._uploader._unsent(self._number)

    def done(self) -> bool:
        """Returns whether each is sent or set aside, or the bucket is given up for now."""
        uploader = self._uploader
        with uploader._lock:
            first = next(iter(uploader._entries.values()), None)
            if first is None or first.number > self._number or uploader._stopped:
                return True
            if uploader._successes != self._successes:
                self._successes, self._failures = uploader._successes, uploader._failures
            return not uploader._healthy and uploader._failures - self._failures >= _FLUSH_PROBES
