"""Uploading: the threads that send a spool's episodes, and what they do when the bucket fails.

While the bucket answers, up to `max_uploads` requests are under way, and index lines go in batches.
When it does not (away, throttled, denied, missing: it may heal), its gate closes, and
each probe tries another episode, so that no single one can stand in the way. What fails for its own
sake (its file is damaged, its id is taken) is set aside and reported, and left where it is.
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
from contextlib import contextmanager

from webtraj import errors
from webtraj.collectors.sending import (
    BusyError,
    EpisodeSender,
    SentEpisode,
    SharedWork,
    StoppedError,
)
from webtraj.store.blobs import Blob
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

# Whether a bucket takes requests, and if it does not, when one may be tried.
#
# While it does not, only one request at a time may go, a probe, each after a longer pause: full
# jitter, up to a cap. The first request that succeeds opens the gate again.


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


class Gate:
    """The state of a bucket. Whoever shares it between threads holds a lock."""

    def __init__(self, pauses: Pauses, clock: Callable[[], float]) -> None:
        self.pauses = pauses
        self.open = True
        """Whether the last request that tells was answered; True before the first."""
        self.successes = 0
        self.failures = 0
        """Probes that failed, and requests that closed the gate."""
        self._clock = clock
        self._probing = False
        self._level = 0
        self._next_probe = 0.0

    def seconds_to_wait(self) -> float | None:
        """Returns for how long no request may go: 0 if one may, None until the probe is back."""
        if self.open:
            return 0.0
        return None if self._probing else max(self._next_probe - self._clock(), 0.0)

    def begin(self) -> bool:
        """Lets a request go that may; returns whether it is a probe."""
        if self.open:
            return False
        self._probing = True
        return True

    def end(self, probe: bool) -> None:
        """Takes a request back, whatever it told."""
        self._probing = self._probing and not probe

    def succeeded(self) -> bool:
        """Notes that a request was answered; returns whether that opened the gate."""
        self.successes += 1
        opened = not self.open
        self.open = True
        self._level = 0
        return opened

    def failed(self, probe: bool) -> bool:
        """Notes that a request was not answered; returns whether that closed the gate."""
        closed = self.open
        if closed or probe:  # Others were under way when it closed, and tell nothing new.
            self.open = False
            self.failures += 1
            self._level += 1
            self._next_probe = self._clock() + self.pauses.after(self._level)
        return closed

    def hurry(self) -> None:
        """Lets the next probe go now, and the pauses begin anew."""
        self._level = 0
        self._next_probe = 0.0


# The episodes that an uploader has to send: in which order, how far, and what is wrong with them.
#
# All that is kept in memory of one is its id, its size and what failed.

_BATCH = 100
"""Index lines that go together; each episode's file is kept open, and locked, until then."""
_BUSY_PAUSE = 0.25
_BUSY_LIMIT = 60.0
"""Seconds for which an episode may be in another process's hands before it is set aside."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unsent:
    """An episode that is not in the bucket."""

    episode_id: str
    size: int
    """In bytes, blobs included."""
    reason: str
    """What failed; empty if its turn has not come."""


@dataclasses.dataclass(slots=True)
class Entry:
    """An episode that waits, or is being sent."""

    number: int
    episode_id: str
    size: int
    since: float
    attempts: int = 0
    busy_since: float | None = None
    reason: str = ""


class Backlog:
    """Episodes in the order in which they are to be sent. Not safe to share without a lock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._unsent: dict[int, Entry] = {}
        self._set_aside: dict[int, Entry] = {}
        self._waiting: collections.deque[Entry] = collections.deque()
        self._busy: collections.deque[tuple[float, Entry]] = collections.deque()
        self.last_number = 0
        """Of the episode that was added last."""
        self.bytes_to_send = 0
        """Of the episodes that are not in the bucket, those that were set aside not counted."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def unsent(self) -> int:
        """Number of episodes that are not in the bucket."""
        return len(self._unsent) + len(self._set_aside)

    @property
    def set_aside(self) -> int:
        """Number of those that are not tried again."""
        return len(self._set_aside)

    @property
    def bytes_unsent(self) -> int:
        """Of all that are not in the bucket."""
        return self.bytes_to_send + sum(entry.size for entry in self._set_aside.values())

    @property
    def age(self) -> float | None:
        """Seconds since the oldest that is not in the bucket was added; None if all are."""
        oldest = [next(iter(them.values())) for them in (self._unsent, self._set_aside) if them]
        return self._clock() - min(entry.since for entry in oldest) if oldest else None

    def add(self, episode_id: str, size: int) -> None:
        """Adds an episode at the end."""
        self.last_number += 1
        entry = Entry(self.last_number, episode_id, size, self._clock())
        self._unsent[entry.number] = entry
        self.bytes_to_send += size
        self._waiting.append(entry)

    def take(self) -> Entry:
        """Takes the first one, to be sent."""
        return self._waiting.popleft()

    def put_first(self, entry: Entry) -> None:
        """Puts back one that was not tried."""
        self._waiting.appendleft(entry)

    def put_last(self, entry: Entry, reason: str) -> None:
        """Puts back one that failed, behind all others."""
        entry.reason = reason
        self._waiting.append(entry)

    def put_off(self, entry: Entry, reason: str) -> None:
        """Puts back one that another process is sending, for a short while."""
        entry.reason = reason
        now = self._clock()
        if entry.busy_since is None:
            entry.busy_since = now
        if now - entry.busy_since > _BUSY_LIMIT:
            self.put_aside(entry, reason)
        else:
            self._busy.append((now + _BUSY_PAUSE, entry))

    def put_aside(self, entry: Entry, reason: str) -> None:
        """Gives one up, until a push."""
        entry.reason = reason
        self.remove(entry)
        self._set_aside[entry.number] = entry

    def remove(self, entry: Entry) -> None:
        """Forgets one that is in the bucket."""
        self.bytes_to_send -= self._unsent.pop(entry.number).size

    def wake(self) -> float | None:
        """Lets those wait again that were put off; returns when the next is to be, or None."""
        while self._busy and self._busy[0][0] <= self._clock():
            self._waiting.append(self._busy.popleft()[1])
        return self._busy[0][0] if self._busy else None

    def done_until(self, number: int) -> bool:
        """Returns whether all up to that number are sent, or set aside."""
        first = next(iter(self._unsent), None)
        return first is None or first > number

    def list(self, until: int) -> list[Unsent]:
        """Returns those up to that number that are not in the bucket, those set aside first."""
        entries = [*self._set_aside.values(), *self._unsent.values()]
        return [
            Unsent(entry.episode_id, entry.size, entry.reason)
            for entry in entries
            if entry.number <= until
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """Index lines that go together, and the episodes that they are of."""

    key: str
    episodes: list[tuple[Entry, SentEpisode]]

    @property
    def content(self) -> bytes:
        """The index lines."""
        return b"".join(sent.summary.to_line() for _, sent in self.episodes)


class Shards:
    """Index lines that are to go, in batches. Not safe to share without a lock."""

    def __init__(self, interval: float, clock: Callable[[], float]) -> None:
        self._interval = interval
        self._clock = clock
        self._batch: list[tuple[Entry, SentEpisode]] = []
        self._due = 0.0
        self._ready: collections.deque[Shard] = collections.deque()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, entry: Entry, sent: SentEpisode) -> None:
        """Adds an episode's line to the batch."""
        if not self._batch:
            self._due = self._clock() + self._interval
        self._batch.append((entry, sent))

    def cut(self, *, now: bool) -> float | None:
        """Makes shards of the batch: if it is full, or its time has come, or `now`.

        Returns:
            When its time will come; None if nothing is left in it.
        """
        while self._batch and (now or len(self._batch) >= _BATCH or self._clock() >= self._due):
            some, self._batch = self._batch[:_BATCH], self._batch[_BATCH:]
            self._ready.append(Shard(INDEX + index_file_name(), some))
        return self._due if self._batch else None

    def take(self) -> Shard:
        """Takes a shard, to be written."""
        return self._ready.popleft()

    def put_back(self, shard: Shard) -> None:
        """Puts back one that could not be written: as it is, since it may have been."""
        self._ready.appendleft(shard)

    def let_go(self) -> None:
        """Gives all up, and lets others send their episodes."""
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
"""For an episode that fails in a way that does not heal by itself, before it is set aside."""
_FLUSH_PROBES = 3
"""Probes in a row that must fail before a flush gives up."""


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
        self._clock = clock
        self._lock = threading.RLock()
        self._work_came = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._watchers: set[Callable[[], object]] = set()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._sending = 0
        self._flushes = 0
        self._stopped = False

        self._gate = Gate(pauses or Pauses(), clock)
        self._backlog = Backlog(clock)
        self._shards = Shards(index_interval, clock)
        self._questions: collections.deque[Callable[[], None]] = collections.deque()
        self._helps: collections.deque[SharedWork[Blob]] = collections.deque()
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
            self._backlog.add(episode_id, size)
            self._begin_threads()
            self._work_came.notify()

    def status(self, *, open_episodes: int = 0) -> UploadStatus:
        """Returns where the episodes are."""
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
        """Returns the episodes that are not in the bucket, those that were set aside first."""
        with self._lock:
            return self._backlog.list(self._backlog.last_number)

    def is_behind(self, limit: int) -> bool:
        """Returns whether more than `limit` bytes wait although the bucket takes them."""
        return self._gate.open and not self._stopped and self._backlog.bytes_to_send > limit

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
        """Waits until all that was added is sent, set aside, or given up for now.

        Returns:
            What is not in the bucket.
        """
        with self.flushing() as flush, self._lock:
            self._progress.wait_for(flush.done, timeout)
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
        episodes = len(self._backlog) if self._gate.open else 1
        work = len(self._questions) + len(self._helps) + episodes
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
                self._shards.let_go()

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
        except Exception as error:  # Of whatever kind, it is no single episode's.
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
                self._backlog.put_first(entry)
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
                "The episode %r cannot be sent: %s It is left in %s.",
                entry.episode_id, error, self._sender.spool.path, exc_info=not known,
            )  # fmt: skip
            with self._finished(probe):
                self._last_error = str(error) if known else repr(error)
                self._backlog.put_aside(entry, self._last_error)
        else:
            with self._finished(probe):
                if sent is None:  # Another has sent it.
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
        for _, sent in shard.episodes:
            self._remove(sent)
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
                "The episode %r is in the bucket, but cannot be removed from %s: %s. A push will "
                "find that it is there.",
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

    @contextmanager
    def _finished(self, probe: bool) -> Iterator[None]:
        """Holds the lock while what has become of a piece of work is noted, and tells everybody."""
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
            except Exception:  # An event loop that is closed, a display that fails: not our affair.
                _LOGGER.debug("A watcher failed.", exc_info=True)

    def _note_success(self) -> None:
        if self._gate.succeeded():
            _LOGGER.warning("%s takes episodes again.", self.url)
            self._begin_threads()
            self._work_came.notify_all()

    def _note_failure(self, error: Exception, probe: bool) -> None:
        self._last_error = str(error)
        if self._gate.failed(probe):
            _LOGGER.warning(
                "%s takes no episodes: %s They are kept in %s, and sent once it does.",
                self.url, error, self._sender.spool.path,
            )  # fmt: skip


class Flush:
    """Whether what an uploader had to send when the flush began is done with."""

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
        """Returns which of them are not in the bucket."""
        with self._lock:
            return self._backlog.list(self._until)

    def done(self) -> bool:
        """Returns whether each is sent or set aside, or the bucket is given up for now."""
        with self._lock:
            if self._stopped() or self._backlog.done_until(self._until):
                return True
            if self._gate.successes != self._successes:
                self._successes, self._failures = self._gate.successes, self._gate.failures
            return not self._gate.open and self._gate.failures - self._failures >= _FLUSH_PROBES
