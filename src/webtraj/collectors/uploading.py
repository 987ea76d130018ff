"""Uploading: threads that send a spool's episodes, and their behavior when the bucket fails.

While the bucket answers, up to `max_uploads` requests run at once, and index lines are sent in
batches. When it does not (down, throttled, access denied or bucket missing: it may recover), its
gate closes, and each probe tries another episode, so that no single one blocks the rest. An episode
that cannot be sent for a reason of its own (a damaged file, an id already used) is set aside,
reported, and left where it is.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from webtraj import errors
from webtraj.collectors.sending import (
    BusyError,
    EpisodeSender,
    SentEpisode,
    SharedWork,
    StoppedError,
)
from webtraj.store.index import index_file_name
from webtraj.store.layout import INDEX

__all__ = [
    "Backlog",
    "Entry",
    "Flush",
    "Gate",
    "Pauses",
    "Shard",
    "Shards",
    "Unsent",
    "UploadStatus",
    "Uploader",
]

_T = TypeVar("_T")

# The gate: whether a bucket accepts requests, and if not, when to probe it.
#
# While it is closed, only one request at a time may go, a probe, each after a longer pause: full
# jitter, up to a cap. The first request that succeeds opens the gate again.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """The pauses between probes of a failing bucket: full jitter, up to a cap."""

    first: float = 1.0
    """The longest first pause, in seconds; each further pause may be twice as long."""
    cap: float = 60.0
    """The longest pause, in seconds."""
    uniform: Callable[[float, float], float] = random.uniform

    def after(self, failures: int) -> float:
        """Return the seconds to wait after this many failures in a row, at least one."""
        return self.uniform(0.0, min(self.cap, self.first * 2.0 ** min(failures - 1, 30)))


class Gate:
    """The state of a bucket. Threads that share it must hold a lock."""

    def __init__(self, pauses: Pauses, clock: Callable[[], float]) -> None:
        self.pauses = pauses
        self.open = True
        """Whether the last conclusive request was answered; True before the first."""
        self.successes = 0
        self.failures = 0
        """The number of failed probes and requests that closed the gate."""
        self._clock = clock
        self._probing = False
        self._level = 0
        self._next_probe = 0.0

    def seconds_to_wait(self) -> float | None:
        """Return the seconds until a request may go; 0 for now, None until the probe is back."""
        if self.open:
            return 0.0
        return None if self._probing else max(self._next_probe - self._clock(), 0.0)

    def begin(self) -> bool:
        """Start a request that may go; return whether it is a probe."""
        if self.open:
            return False
        self._probing = True
        return True

    def end(self, probe: bool) -> None:
        """Finish a request, whatever its result."""
        self._probing = self._probing and not probe

    def succeeded(self) -> bool:
        """Note that a request was answered; return whether that opened the gate."""
        self.successes += 1
        opened = not self.open
        self.open = True
        self._level = 0
        return opened

    def failed(self, probe: bool) -> bool:
        """Note that a request was not answered; return whether that closed the gate."""
        closed = self.open
        if closed or probe:  # Others were in flight when it closed: no news.
            self.open = False
            self.failures += 1
            self._level += 1
            self._next_probe = self._clock() + self.pauses.after(self._level)
        return closed

    def hurry(self) -> None:
        """Let the next probe go now, and restart the pauses."""
        self._level = 0
        self._next_probe = 0.0


# The backlog: the episodes to send, in order, with their state and failures.
#
# Only an episode's id, size and failure are kept in memory.

_BATCH = 100
"""The most index lines in a batch; each episode's file stays open and locked until it is sent."""
_BUSY_PAUSE = 0.25
_BUSY_LIMIT = 60.0
"""Seconds for which another process may hold an episode before it is set aside."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unsent:
    """An episode that is not in the bucket."""

    episode_id: str
    size: int
    """Its size in bytes, blobs included."""
    reason: str
    """Why it failed; empty if it was not tried yet."""


@dataclasses.dataclass(slots=True)
class Entry:
    """An episode that is waiting or being sent."""

    number: int
    episode_id: str
    size: int
    since: float
    attempts: int = 0
    busy_since: float | None = None
    reason: str = ""


class Backlog:
    """Episodes in the order in which to send them. Needs a lock to be shared."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._unsent: dict[int, Entry] = {}
        self._set_aside: dict[int, Entry] = {}
        self._waiting: collections.deque[Entry] = collections.deque()
        self._busy: collections.deque[tuple[float, Entry]] = collections.deque()
        self.last_number = 0
        """The number of the last episode added."""
        self.bytes_to_send = 0
        """The bytes of episodes that are not in the bucket, without those set aside."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def unsent(self) -> int:
        """Number of episodes that are not in the bucket."""
        return len(self._unsent) + len(self._set_aside)

    @property
    def set_aside(self) -> int:
        """Number of those that are not retried."""
        return len(self._set_aside)

    @property
    def bytes_unsent(self) -> int:
        """Bytes of all episodes that are not in the bucket."""
        return self.bytes_to_send + sum(entry.size for entry in self._set_aside.values())

    @property
    def age(self) -> float | None:
        """Seconds since the oldest unsent episode was added; None if all are sent."""
        oldest = [next(iter(them.values())) for them in (self._unsent, self._set_aside) if them]
        return self._clock() - min(entry.since for entry in oldest) if oldest else None

    def add(self, episode_id: str, size: int) -> None:
        """Add an episode at the end."""
        self.last_number += 1
        entry = Entry(self.last_number, episode_id, size, self._clock())
        self._unsent[entry.number] = entry
        self.bytes_to_send += size
        self._waiting.append(entry)

    def take(self) -> Entry:
        """Take the first episode, to send it."""
        return self._waiting.popleft()

    def put_last(self, entry: Entry, reason: str) -> None:
        """Put back an episode that failed, behind all others."""
        entry.reason = reason
        self._waiting.append(entry)

    def put_off(self, entry: Entry, reason: str) -> None:
        """Put back an episode that another process is sending, for a short while."""
        entry.reason = reason
        now = self._clock()
        if entry.busy_since is None:
            entry.busy_since = now
        if now - entry.busy_since > _BUSY_LIMIT:
            self.put_aside(entry, reason)
        else:
            self._busy.append((now + _BUSY_PAUSE, entry))

    def put_aside(self, entry: Entry, reason: str) -> None:
        """Give up on an episode until a push."""
        entry.reason = reason
        self.remove(entry)
        self._set_aside[entry.number] = entry

    def remove(self, entry: Entry) -> None:
        """Remove an episode that is in the bucket."""
        self.bytes_to_send -= self._unsent.pop(entry.number).size

    def wake(self) -> float | None:
        """Requeue postponed episodes that are due; return when the next is due, or None."""
        while self._busy and self._busy[0][0] <= self._clock():
            self._waiting.append(self._busy.popleft()[1])
        return self._busy[0][0] if self._busy else None

    def done_until(self, number: int) -> bool:
        """Return whether all episodes up to that number are sent or set aside."""
        first = next(iter(self._unsent), None)
        return first is None or first > number

    def list(self, until: int) -> list[Unsent]:
        """Return the unsent episodes up to that number, those set aside first."""
        entries = [*self._set_aside.values(), *self._unsent.values()]
        return [
            Unsent(entry.episode_id, entry.size, entry.reason)
            for entry in entries
            if entry.number <= until
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """A batch of index lines, with their episodes."""

    key: str
    episodes: list[tuple[Entry, SentEpisode]]

    @property
    def content(self) -> bytes:
        """The index lines."""
        return b"".join(sent.summary.to_line() for _, sent in self.episodes)


class Shards:
    """Batches of index lines to send. Needs a lock to be shared."""

    def __init__(self, interval: float, clock: Callable[[], float]) -> None:
        self._interval = interval
        self._clock = clock
        self._batch: list[tuple[Entry, SentEpisode]] = []
        self._due = 0.0
        self._ready: collections.deque[Shard] = collections.deque()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, entry: Entry, sent: SentEpisode) -> None:
        """Add an episode's line to the current batch."""
        if not self._batch:
            self._due = self._clock() + self._interval
        self._batch.append((entry, sent))

    def cut(self, *, now: bool) -> float | None:
        """Make shards of the batch if it is full or due, or if `now`.

        Returns:
            When the rest is due; None if nothing is left.
        """
        while self._batch and (now or len(self._batch) >= _BATCH or self._clock() >= self._due):
            some, self._batch = self._batch[:_BATCH], self._batch[_BATCH:]
            self._ready.append(Shard(INDEX + index_file_name(), some))
        return self._due if self._batch else None

    def take(self) -> Shard:
        """Take a shard, to write it."""
        return self._ready.popleft()

    def put_back(self, shard: Shard) -> None:
        """Put back a shard that failed, unchanged, since it may have been written."""
        self._ready.appendleft(shard)

    def let_go(self) -> None:
        """Give up all lines, and release their episodes for other senders."""
        for _, sent in [*self._batch, *(pair for shard in self._ready for pair in shard.episodes)]:
            sent.claim.release()
        self._batch.clear()
        self._ready.clear()


_LOGGER = logging.getLogger(__name__)

_MAY_HEAL = (
    errors.StorageUnavailableError,
    errors.StorageDeniedError,
    errors.StorageMissingError,
)
_ATTEMPTS = 3
"""The attempts at an episode with a permanent failure before it is set aside."""
_FLUSH_PROBES = 3
"""The probes in a row that must fail before a flush gives up."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UploadStatus:
    """The number and size of a collector's sent and unsent episodes."""

    open_episodes: int = 0
    """Episodes that have begun and not ended."""
    unsent_episodes: int = 0
    """Episodes that have ended but are not in the bucket with their index line, failed included."""
    failed_episodes: int = 0
    """Episodes set aside for a reason of their own; `webtraj push` retries them."""
    queued_bytes: int = 0
    """Bytes of the unsent episodes, blobs included."""
    oldest_unsent: float | None = None
    """Seconds since the oldest unsent episode was sealed or found; None if there is none."""
    sent_episodes: int = 0
    """Episodes sent since the collector was made."""
    sent_bytes: int = 0
    """Bytes sent, without those that the bucket already had."""
    healthy: bool = True
    """Whether the last conclusive request was answered; True before the first."""
    last_error: str = ""
    """The message of the last failure; empty if there was none."""


class Uploader:
    """Sends episodes on its own threads, which start with the first piece of work."""

    def __init__(
        self,
        sender: EpisodeSender,
        *,
        max_uploads: int = 16,
        index_interval: float = 5.0,
        pauses: Pauses | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize the uploader.

        Args:
            sender: Sends one episode.
            max_uploads: The maximum number of concurrent requests.
            index_interval: Seconds after which an index line is sent even in a small batch.
            pauses: How long to leave a failing bucket alone.
            clock: Returns the time in seconds.
        """
        self._sender = sender
        self._max_uploads = max_uploads
        self._clock = clock
        self._lock = threading.RLock()
        self._work_came = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._watchers: set[Callable[[], object]] = set()
        self._threads: set[threading.Thread] = set()
        self._sending = 0
        self._flushes = 0
        self._stopped = False

        self._gate = Gate(pauses or Pauses(), clock)
        self._backlog = Backlog(clock)
        self._shards = Shards(index_interval, clock)
        self._tasks: collections.deque[Callable[[], None]] = collections.deque()
        self._sent_episodes = 0
        self._sent_bytes = 0
        self._last_error = ""

    # The public methods.

    @property
    def url(self) -> str:
        """The destination, without credentials."""
        return self._sender.storage.url

    def check(self, timeout: float) -> None:
        """Wait a while for the bucket to report whether it accepts the spool's format.

        A bucket that does not answer is ignored for now.

        Raises:
            InvalidInputError: The bucket has a dataset of another format.
            DatasetError: Its dataset cannot be read, or is from a newer webtraj.
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
            self._tasks.append(ask)
            self._begin_threads()
            self._work_came.notify()
            self._progress.wait_for(lambda: answers, timeout)
        failure = answers[0] if answers else None
        if isinstance(failure, (errors.InvalidInputError, errors.DatasetError)):
            raise failure
        if failure is not None or not answers:
            why = str(failure or f"no answer in {timeout:g} s.")
            _LOGGER.warning(
                "Could not check %s: %s Episodes wait in %s.",
                self.url, why, self._sender.spool.path,
            )  # fmt: skip

    def add(self, episode_id: str, size: int) -> None:
        """Queue an episode that is waiting in the spool."""
        with self._lock:
            self._backlog.add(episode_id, size)
            self._begin_threads()
            self._work_came.notify()

    def status(self, *, open_episodes: int = 0) -> UploadStatus:
        """Return the number and size of sent and unsent episodes."""
        with self._lock:
            return UploadStatus(
                open_episodes=open_episodes,
                unsent_episodes=self._backlog.unsent,
                failed_episodes=self._backlog.set_aside,
                queued_bytes=self._backlog.bytes_unsent,
                oldest_unsent=self._backlog.age,
                sent_episodes=self._sent_episodes,
                sent_bytes=self._sent_bytes,
                healthy=self._gate.open,
                last_error=self._last_error,
            )

    def unsent(self) -> list[Unsent]:
        """Return the episodes that are not in the bucket, those set aside first."""
        with self._lock:
            return self._backlog.list(self._backlog.last_number)

    def is_behind(self, limit: int) -> bool:
        """Return whether more than `limit` bytes are waiting although the bucket accepts them."""
        return self._gate.open and not self._stopped and self._backlog.bytes_to_send > limit

    @contextmanager
    def watched(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call `callback`, on any thread, whenever anything changes."""
        with self._lock:
            self._watchers.add(callback)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.discard(callback)

    @contextmanager
    def flushing(self) -> Iterator[Flush]:
        """Hurry: send index lines without waiting for more, and the next probe at once."""
        with self._lock:
            flush = Flush(self._lock, self._backlog, self._gate, lambda: self._stopped)
            self._flushes += 1
            self._gate.hurry()
            self._work_came.notify_all()
        try:
            yield flush
        finally:
            with self._lock:
                self._flushes -= 1

    def wait(self, timeout: float | None = None) -> list[Unsent]:
        """Wait until everything added is sent, set aside, or given up for now.

        Returns:
            The episodes that are not in the bucket.
        """
        with self.flushing() as flush, self._lock:
            self._progress.wait_for(flush.done, timeout)
            return flush.unsent()

    def stop(self, timeout: float | None = None) -> bool:
        """Start no more requests, and wait for those in flight. Idempotent.

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
        """Start the threads at the first piece of work. Called with the lock held."""
        for _ in range(0 if self._threads or self._stopped else self._max_uploads):
            thread = threading.Thread(target=self._work, name="webtraj-upload", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # The interpreter is shutting down; the spool keeps the episode.
                return
            self._threads.add(thread)

    def _work(self) -> None:
        while (task := self._next()) is not None:
            task()
        with self._lock:
            self._threads.discard(threading.current_thread())
            if not self._threads:
                self._shards.let_go()

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next piece of work; return None if there will be none."""
        with self._lock:
            while not self._stopped:
                task, seconds = self._choose()
                if task is not None:
                    return task
                self._work_came.wait(seconds)
            return None

    def _choose(self) -> tuple[Callable[[], None] | None, float | None]:
        """Return what to do next, or after how many seconds to check again."""
        if self._tasks:
            return self._tasks.popleft(), None
        times = [self._backlog.wake()]
        nothing_comes = bool(self._flushes) and not (len(self._backlog) or self._sending)
        times.append(self._shards.cut(now=nothing_comes))
        if not (len(self._shards) or len(self._backlog)):
            due = [moment for moment in times if moment is not None]
            return None, max(min(due) - self._clock(), 0.0) if due else None
        seconds = self._gate.seconds_to_wait()
        if seconds != 0.0:
            return None, seconds
        probe = self._gate.begin()
        self._sending += 1
        if len(self._shards):
            return functools.partial(self._send_shard, self._shards.take(), probe), None
        return functools.partial(self._send_episode, self._backlog.take(), probe), None

    def _send_episode(self, entry: Entry, probe: bool) -> None:
        try:
            self._sender.prepare()
        except Exception as error:  # Any kind: not the fault of a single episode.
            with self._finished(probe):
                self._backlog.put_last(entry, str(error))
                self._note_failure(error, probe)
            return
        try:
            sent = self._sender.send(
                entry.episode_id, share=self._share, stopped=lambda: self._stopped
            )
        except StoppedError:
            with self._finished(probe):
                pass  # It stays unsent.
        except BusyError as error:
            with self._finished(probe):
                self._backlog.put_off(entry, str(error))
        except errors.StorageError as error:
            with self._finished(probe):
                entry.attempts += not isinstance(error, _MAY_HEAL)
                if entry.attempts >= _ATTEMPTS:
                    self._backlog.put_aside(entry, str(error))
                else:
                    self._backlog.put_last(entry, str(error))
                self._note_failure(error, probe)
        except Exception as error:
            known = isinstance(error, (errors.WebtrajError, OSError))
            _LOGGER.error(
                "Could not send the episode %r: %s It stays in %s.",
                entry.episode_id, error, self._sender.spool.path, exc_info=not known,
            )  # fmt: skip
            with self._finished(probe):
                self._last_error = str(error) if known else repr(error)
                self._backlog.put_aside(entry, self._last_error)
        else:
            with self._finished(probe):
                if sent is None:  # Another process has sent it.
                    self._backlog.remove(entry)
                else:
                    self._shards.add(entry, sent)
                    self._note_success()

    def _send_shard(self, shard: Shard, probe: bool) -> None:
        try:
            self._sender.storage.write(shard.key, shard.content)
        except Exception as error:
            with self._finished(probe):
                self._shards.put_back(shard)
                self._note_failure(error, probe)
            return
        self._share(self._remove, [sent for _, sent in shard.episodes])
        with self._finished(probe):
            self._note_success()
            for entry, sent in shard.episodes:
                self._backlog.remove(entry)
                self._sent_episodes += 1
                self._sent_bytes += sent.size

    def _remove(self, sent: SentEpisode) -> None:
        try:
            self._sender.spool.remove(sent.summary.episode_id)
        except OSError as error:
            _LOGGER.error(
                "The episode %r is in the bucket, but could not be removed from %s: %s. A push "
                "will remove it.",
                sent.summary.episode_id, self._sender.spool.path, error,
            )  # fmt: skip
        finally:
            sent.claim.release()

    def _share(self, call: Callable[[_T], None], items: Sequence[_T]) -> None:
        work = SharedWork(call, items)
        others = min(len(items), self._max_uploads) - 1
        if others > 0:
            with self._lock:
                self._tasks.extend([work.help] * others)
                self._work_came.notify(others)
        work.finish()

    @contextmanager
    def _finished(self, probe: bool) -> Iterator[None]:
        """Hold the lock while the result of a piece of work is noted, then notify all."""
        with self._lock:
            try:
                yield
            finally:
                self._sending -= 1
                self._gate.end(probe)
                if probe:
                    self._work_came.notify_all()
                self._progress.notify_all()
            watchers = list(self._watchers)
        for watcher in watchers:
            try:
                watcher()
            except Exception:  # Not our problem: a closed event loop, for example.
                _LOGGER.debug("A watcher failed.", exc_info=True)

    def _note_success(self) -> None:
        if self._gate.succeeded():
            _LOGGER.warning("%s accepts episodes again.", self.url)
            self._work_came.notify_all()

    def _note_failure(self, error: Exception, probe: bool) -> None:
        self._last_error = str(error)
        if self._gate.failed(probe):
            _LOGGER.warning(
                "%s does not accept episodes: %s They wait in %s and are sent once it does.",
                self.url, error, self._sender.spool.path,
            )  # fmt: skip


class Flush:
    """The progress of a flush over the episodes that were queued when it began."""

    def __init__(
        self, lock: threading.RLock, backlog: Backlog, gate: Gate, stopped: Callable[[], bool]
    ) -> None:
        self._lock = lock
        self._backlog = backlog
        self._gate = gate
        self._stopped = stopped
        self._until = backlog.last_number
        self._failures, self._successes = gate.failures, gate.successes

    def unsent(self) -> list[Unsent]:
        """Return which of these episodes are not in the bucket."""
        with self._lock:
            return self._backlog.list(self._until)

    def done(self) -> bool:
        """Return whether each is sent or set aside, or the bucket has been given up for now."""
        with self._lock:
            if self._stopped() or self._backlog.done_until(self._until):
                return True
            if self._gate.successes != self._successes:
                self._successes, self._failures = self._gate.successes, self._gate.failures
            return not self._gate.open and self._gate.failures - self._failures >= _FLUSH_PROBES
