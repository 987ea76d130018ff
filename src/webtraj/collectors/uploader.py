"""The uploader: a pool of threads that sends a spool's episodes to a bucket.

The order of effects is the same as in a folder: an episode's blobs, its file, its index line, which
goes with those of other episodes; then its removal from the spool. Each thread takes the next job:
one blob, one file, one batch of index lines. Only an episode's id, size and failure are kept in
memory while it waits.

When the bucket does not answer (down, throttled, access denied or bucket missing: it may recover),
its circuit breaker opens, and each probe tries another episode, so that no single one blocks the
rest. An episode that cannot be sent for a reason of its own (a damaged file, an id already used) is
set aside, reported, and left where it is.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from webtraj import errors
from webtraj.collectors.bucket_objects import EpisodeSender
from webtraj.collectors.spool import Spool, WaitingEpisode
from webtraj.store.blobs import Blob
from webtraj.store.bucket_requests import UnreachedError
from webtraj.store.index import index_file_name
from webtraj.store.layout import INDEX
from webtraj.store.storage import Storage

__all__ = ["CircuitBreaker", "Pauses", "Unsent", "UploadStatus", "Uploader"]

_LOGGER = logging.getLogger(__name__)

_MEMORY = 256 << 20
"""The limit of bytes of blobs and episodes in memory, unless a single one is larger."""
_BATCH = 100
"""The most index lines in a batch; each episode's file stays open and locked until it is sent."""
_BUSY_PAUSE = 0.25
_BUSY_LIMIT = 60.0
"""Seconds for which another process may hold an episode before it is set aside."""
_ATTEMPTS = 3
"""The attempts at an episode with a permanent failure before it is set aside."""
_FLUSH_PROBES = 3
"""The probes in a row that must fail before a flush gives up; one if the bucket never answered."""
_MAY_HEAL = (
    errors.StorageUnavailableError,
    errors.StorageDeniedError,
    errors.StorageMissingError,
)


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


class CircuitBreaker:
    """Whether a bucket accepts requests, and if not, when to probe it. Not thread-safe by itself.

    While it is closed, every request may go. A request that is not answered opens it; then only one
    request at a time may go, a probe, each after a longer pause. The first success closes it.
    """

    def __init__(self, pauses: Pauses, clock: Callable[[], float]) -> None:
        self.pauses = pauses
        self.is_open = False
        """Whether the last conclusive request was not answered; False before the first."""
        self.failures = 0
        """The number of failed probes and of requests that opened it."""
        self.failures_healed = 0
        """Their number at the last success."""
        self._clock = clock
        self._probing = False
        self._level = 0
        self._next_probe = 0.0

    def seconds_to_wait(self) -> float | None:
        """Return the seconds until the next request; 0 for now, None while a probe is running."""
        if not self.is_open:
            return 0.0
        return None if self._probing else max(self._next_probe - self._clock(), 0.0)

    def begin(self) -> bool:
        """Start a request that may go; return whether it is a probe."""
        self._probing = self._probing or self.is_open
        return self.is_open

    def end(self, probe: bool) -> None:
        """Finish a request, whatever its result."""
        self._probing = self._probing and not probe

    def note_success(self) -> bool:
        """Note that a request was answered; return whether that closed the breaker."""
        closed, self.is_open = self.is_open, False
        self._level = 0
        self.failures_healed = self.failures
        return closed

    def note_failure(self, probe: bool) -> bool:
        """Note that a request was not answered; return whether that opened the breaker."""
        opened = not self.is_open
        if opened or probe:  # Others were in flight when it opened: no news.
            self.is_open = True
            self.failures += 1
            self._level += 1
            self._next_probe = self._clock() + self.pauses.after(self._level)
        return opened

    def hurry(self) -> None:
        """Let the next probe go now, and restart the pauses."""
        self._level = 0
        self._next_probe = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Unsent:
    """An episode that is not in the bucket."""

    episode_id: str
    size: int
    """Its size in bytes, blobs included."""
    reason: str
    """Why it failed; empty if it was not tried yet."""


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


class Flush(NamedTuple):
    """The progress of a flush over the episodes that were queued when it began."""

    done: Callable[[], bool]
    """Returns whether each is sent or set aside, or the bucket has been given up for now."""
    unsent: Callable[[], list[Unsent]]
    """Returns which of these episodes are not in the bucket."""


@dataclasses.dataclass(slots=True, eq=False)
class _Entry:
    """An episode that is not in the bucket."""

    number: int
    episode_id: str
    size: int
    since: float
    attempts: int = 0
    busy_since: float | None = None
    reason: str = ""


@dataclasses.dataclass(slots=True, eq=False)
class _Sending:
    """An episode that is being sent, from its claim until its index line is in the bucket."""

    entry: _Entry
    probe: bool
    claim: contextlib.ExitStack | None = None
    episode: WaitingEpisode | None = None
    """What is to be sent; None before and after."""
    line: bytes = b""
    blobs_left: int = 0
    sent_bytes: int = 0
    error: Exception | None = None


_Shard = tuple[str, Sequence[_Sending]]
"""The key of some index lines, and their episodes."""
_Job = tuple[int, Callable[[], None]]
"""The bytes that a job holds in memory, and what it does."""


class Uploader:
    """Sends episodes on its own threads, which start with the first job."""

    def __init__(
        self,
        spool: Spool,
        storage: Storage,
        *,
        max_uploads: int = 16,
        index_interval: float = 5.0,
        pauses: Pauses | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize the uploader.

        Args:
            spool: The episodes to send.
            storage: Their destination.
            max_uploads: The maximum number of concurrent requests.
            index_interval: Seconds after which an index line is sent even in a small batch.
            pauses: How long to leave a failing bucket alone.
            clock: Returns the time in seconds.
        """
        self._spool = spool
        self._sender = EpisodeSender(storage, spool.format)
        self._max_uploads = max_uploads
        self._index_interval = index_interval
        self._clock = clock
        self._lock = threading.RLock()
        self._work_came = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._watchers: set[Callable[[], object]] = set()
        self._threads: set[threading.Thread] = set()
        self._flushes = 0
        self._stopped = False
        self._breaker = CircuitBreaker(pauses or Pauses(), clock)

        self._jobs: collections.deque[_Job] = collections.deque()
        self._held = 0  # The bytes that running jobs hold in memory.
        self._memory_wanted = False
        self._last_number = 0
        self._unsent: dict[int, _Entry] = {}  # By number, without those set aside.
        self._bytes_to_send = 0  # Of these.
        self._set_aside: dict[int, _Entry] = {}
        self._waiting: collections.deque[_Entry] = collections.deque()
        self._busy: collections.deque[tuple[float, _Entry]] = collections.deque()
        self._sending: set[_Sending] = set()
        self._claims: set[contextlib.ExitStack] = set()
        self._batch: list[_Sending] = []  # In the bucket, but not in its index.
        self._batch_due = 0.0
        self._shards: collections.deque[_Shard] = collections.deque()
        self._removals: collections.deque[_Sending] = collections.deque()
        self._sent_episodes = 0
        self._sent_bytes = 0
        self._last_error = ""
        self._is_unreached = False  # By the last failure; its retries took long enough.

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
        answer: concurrent.futures.Future[bool] = concurrent.futures.Future()

        def ask() -> None:
            try:
                answer.set_result(self._sender.check_destination())
            except Exception as error:
                answer.set_exception(error)

        self._put([(0, ask)])
        why = ""
        try:
            answer.result(timeout)
        except (errors.InvalidInputError, errors.DatasetError):
            raise
        except concurrent.futures.TimeoutError:
            why = f"no answer in {timeout:g} s."
        except Exception as error:
            why = str(error)
        if why:
            _LOGGER.warning(
                "Could not check %s: %s Episodes wait in %s.", self.url, why, self._spool.path
            )

    def add(self, episode_id: str, size: int) -> None:
        """Queue an episode that is waiting in the spool."""
        with self._lock:
            self._last_number += 1
            entry = _Entry(self._last_number, episode_id, size, self._clock())
            self._unsent[entry.number] = entry
            self._bytes_to_send += size
            self._waiting.append(entry)
            self._put()

    def status(self, *, open_episodes: int = 0) -> UploadStatus:
        """Return the number and size of sent and unsent episodes."""
        with self._lock:
            aside = self._set_aside.values()
            oldest = [next(iter(them.values())) for them in (self._unsent, self._set_aside) if them]
            return UploadStatus(
                open_episodes=open_episodes,
                unsent_episodes=len(self._unsent) + len(aside),
                failed_episodes=len(aside),
                queued_bytes=self._bytes_to_send + sum(entry.size for entry in aside),
                oldest_unsent=(
                    self._clock() - min(entry.since for entry in oldest) if oldest else None
                ),
                sent_episodes=self._sent_episodes,
                sent_bytes=self._sent_bytes,
                healthy=not self._breaker.is_open,
                last_error=self._last_error,
            )

    def unsent(self, until: int | None = None) -> list[Unsent]:
        """Return the episodes that are not in the bucket, those set aside first."""
        with self._lock:
            return [
                Unsent(entry.episode_id, entry.size, entry.reason)
                for entry in (*self._set_aside.values(), *self._unsent.values())
                if until is None or entry.number <= until
            ]

    def is_behind(self, limit: int) -> bool:
        """Return whether more than `limit` bytes are waiting although the bucket accepts them."""
        return not self._breaker.is_open and not self._stopped and self._bytes_to_send > limit

    @contextlib.contextmanager
    def watch(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call `callback`, on any thread, whenever anything changes."""
        with self._lock:
            self._watchers.add(callback)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.discard(callback)

    @contextlib.contextmanager
    def flushing(self) -> Iterator[Flush]:
        """Send index lines and the next probe without delay while the context lasts."""
        with self._lock:
            until, failures = self._last_number, self._breaker.failures
            flush = Flush(partial(self._is_done, until, failures), partial(self.unsent, until))
            self._flushes += 1
            self._breaker.hurry()
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

    def _put(self, jobs: Sequence[_Job] = ()) -> None:
        """Queue jobs and wake a thread for each; start the threads if there are none yet."""
        with self._lock:
            self._jobs.extend(jobs)
            self._work_came.notify(len(jobs) or 1)
            for _ in range(0 if self._threads or self._stopped else self._max_uploads):
                thread = threading.Thread(target=self._work, name="webtraj-upload", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # The interpreter is shutting down; the spool keeps all.
                    return
                self._threads.add(thread)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            size, call = job
            call()
            if size:
                with self._lock:
                    self._held -= size
                    if self._memory_wanted:
                        self._memory_wanted = False
                        self._work_came.notify_all()
        with self._lock:
            self._threads.discard(threading.current_thread())
            if not self._threads:  # Release the episodes for other senders.
                for claim in self._claims:
                    claim.close()

    def _next(self) -> _Job | None:
        """Wait for the next job; return None if there will be none."""
        with self._lock:
            while self._removals or not self._stopped:
                if self._removals:
                    return 0, partial(self._remove, self._removals.popleft())
                job, seconds = self._choose()
                if job is not None:
                    self._held += job[0]
                    return job
                self._work_came.wait(seconds)
            return None

    def _choose(self) -> tuple[_Job | None, float | None]:
        """Return the next job, or the seconds after which to check again."""
        now = self._clock()
        times: list[float] = []
        if self._jobs and self._fits(self._jobs[0][0]):
            return self._jobs.popleft(), None
        while self._busy and self._busy[0][0] <= now:
            self._waiting.append(self._busy.popleft()[1])
        nothing_comes = bool(self._flushes) and not (self._waiting or self._sending)
        if self._batch and (nothing_comes or len(self._batch) >= _BATCH or now >= self._batch_due):
            # The key stays the same if this must be repeated, since it may have been written.
            self._shards.append((INDEX + index_file_name(), self._batch[:_BATCH]))
            del self._batch[:_BATCH]
        if self._shards or (self._waiting and self._fits(self._file_size(self._waiting[0]))):
            seconds = self._breaker.seconds_to_wait()
            if seconds == 0.0:
                return self._request(probe=self._breaker.begin()), None
            times += [] if seconds is None else [now + seconds]
        times += [self._busy[0][0]] if self._busy else []
        times += [self._batch_due] if self._batch else []
        return None, max(min(times) - now, 0.0) if times else None

    def _request(self, *, probe: bool) -> _Job:
        if self._shards:
            return 0, partial(self._send_index, self._shards.popleft(), probe)
        sending = _Sending(self._waiting.popleft(), probe)
        self._sending.add(sending)
        return self._file_size(sending.entry), partial(self._begin, sending)

    def _file_size(self, entry: _Entry) -> int:
        """Return the memory to reserve for an episode's file; 0 if its blobs are stored apart."""
        return entry.size if self._spool.self_contained else 0

    def _fits(self, size: int) -> bool:
        fits = not self._held or self._held + size <= _MEMORY
        self._memory_wanted = self._memory_wanted or not fits
        return fits

    def _begin(self, sending: _Sending) -> None:
        """Read an episode and queue its blobs."""
        try:
            self._sender.prepare()
        except Exception as error:  # Any kind: not the fault of a single episode.
            self._end(sending, error, own=False)
            return
        try:
            sending.claim = self._spool.claim(sending.entry.episode_id)
            self._claims.add(sending.claim)
            sending.episode = self._spool.read(sending.entry.episode_id)
        except Exception as error:
            self._end(sending, error)
            return
        blobs = [blob for blob in sending.episode.blobs if not self._sender.has_sent(blob)]
        sending.blobs_left = len(blobs)
        self._put([(blob.size, partial(self._send_blob, sending, blob)) for blob in blobs])
        if not blobs:
            self._send_file(sending)

    def _send_blob(self, sending: _Sending, blob: Blob) -> None:
        """Send a blob, and after the last also the episode's file."""
        size, failure = 0, sending.error
        try:
            if failure is None:
                assert sending.episode is not None
                size = self._sender.send_blob(blob, sending.episode.store)
        except Exception as error:
            failure = error
        with self._lock:
            sending.sent_bytes += size
            sending.error = sending.error or failure
            sending.blobs_left -= 1
            last = not sending.blobs_left
        if last:
            self._send_file(sending)

    def _send_file(self, sending: _Sending) -> None:
        episode, sending.episode = sending.episode, None
        assert episode is not None
        try:
            if sending.error is not None:
                raise sending.error
            sending.sent_bytes += self._sender.send_episode(
                sending.entry.episode_id, episode.content
            )
            sending.line = episode.line
        except Exception as error:
            self._end(sending, error)
        else:
            self._end(sending, None)

    def _end(self, sending: _Sending, error: Exception | None, *, own: bool = True) -> None:
        """Note the result of an episode.

        Args:
            sending: The episode.
            error: Its failure, if any.
            own: Whether the episode itself may have caused the failure.
        """
        entry = sending.entry
        if error is not None:
            self._release(sending)
        with self._note_result(sending.probe):
            self._sending.discard(sending)
            if error is None:
                if not self._batch:
                    self._batch_due = self._clock() + self._index_interval
                self._batch.append(sending)
                self._note_success()
                return
            entry.reason = str(error)
            unclaimed = own and sending.claim is None
            if unclaimed and isinstance(error, FileNotFoundError):  # Another process has sent it.
                self._forget(entry)
            elif unclaimed and isinstance(error, BlockingIOError):  # Another is sending it.
                now = self._clock()
                entry.busy_since = entry.busy_since or now
                if now - entry.busy_since > _BUSY_LIMIT:
                    self._put_aside(entry)
                else:
                    self._busy.append((now + _BUSY_PAUSE, entry))
            elif not own or isinstance(error, errors.StorageError):
                entry.attempts += own and not isinstance(error, _MAY_HEAL)
                if entry.attempts < _ATTEMPTS:
                    self._waiting.append(entry)
                else:
                    self._put_aside(entry)
                self._note_failure(error, sending.probe)
            else:
                known = isinstance(error, (errors.WebtrajError, OSError))
                _LOGGER.error(
                    "Could not send the episode %r: %s It stays in %s.",
                    entry.episode_id, error, self._spool.path, exc_info=None if known else error,
                )  # fmt: skip
                self._last_error = entry.reason = str(error) if known else repr(error)
                self._put_aside(entry)

    def _send_index(self, shard: _Shard, probe: bool) -> None:
        """Send index lines, and queue the removal of their episodes from the spool."""
        key, episodes = shard
        try:
            self._sender.storage.write(key, b"".join(sending.line for sending in episodes))
        except Exception as error:
            with self._note_result(probe):
                self._shards.appendleft(shard)
                self._note_failure(error, probe)
            return
        with self._note_result(probe):
            self._note_success()
            self._removals.extend(episodes)
            self._work_came.notify(len(episodes))

    def _remove(self, sending: _Sending) -> None:
        """Remove an episode that is in the bucket from the spool."""
        try:
            self._spool.remove(sending.entry.episode_id)
        except OSError as error:
            _LOGGER.error(
                "The episode %r is in the bucket, but could not be removed from %s: %s. A push "
                "will remove it.",
                sending.entry.episode_id, self._spool.path, error,
            )  # fmt: skip
        self._release(sending)
        with self._note_result(probe=False):
            self._forget(sending.entry)
            self._sent_episodes += 1
            self._sent_bytes += sending.sent_bytes

    def _release(self, sending: _Sending) -> None:
        if sending.claim is not None:
            sending.claim.close()
            self._claims.discard(sending.claim)

    def _forget(self, entry: _Entry) -> None:
        del self._unsent[entry.number]
        self._bytes_to_send -= entry.size

    def _put_aside(self, entry: _Entry) -> None:
        """Give up on an episode until a push."""
        self._forget(entry)
        self._set_aside[entry.number] = entry

    @contextlib.contextmanager
    def _note_result(self, probe: bool) -> Iterator[None]:
        """Hold the lock while a result is noted, then wake the threads that wait for it."""
        with self._lock:
            try:
                yield
            finally:
                self._breaker.end(probe)
                if probe:
                    self._work_came.notify_all()
                self._progress.notify_all()
            watchers = list(self._watchers)
        for watcher in watchers:
            try:
                watcher()
            except Exception:  # Not our problem: a closed event loop, for example.
                _LOGGER.debug("A watcher failed.", exc_info=True)

    def _is_done(self, until: int, failures: int) -> bool:
        with self._lock:
            first = next(iter(self._unsent), None)
            if self._stopped or first is None or first > until:
                return True
            in_a_row = self._breaker.failures - max(failures, self._breaker.failures_healed)
            enough = 1 if self._is_unreached else _FLUSH_PROBES
            return self._breaker.is_open and in_a_row >= enough

    def _note_success(self) -> None:
        if self._breaker.note_success():
            _LOGGER.warning("%s accepts episodes again.", self.url)
            self._work_came.notify_all()

    def _note_failure(self, error: Exception, probe: bool) -> None:
        self._last_error = str(error)
        self._is_unreached = isinstance(error, UnreachedError)
        if self._breaker.note_failure(probe):
            _LOGGER.warning(
                "%s does not accept episodes: %s They wait in %s and are sent once it does.",
                self.url, error, self._spool.path,
            )  # fmt: skip
