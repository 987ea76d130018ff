"""Uploading: the threads that send a spool's episodes, and what they do when the bucket fails.

While the bucket answers, up to `max_uploads` requests are under way, and index lines go in batches.
When it does not (away, throttled, denied, missing: it may heal), the gate closes (see `gate`), and
each probe tries another episode, so that no single one can stand in the way. What fails for its own
sake (its file is damaged, its id is taken) is set aside and reported, and left where it is.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from webtraj import errors
from webtraj.collectors.backlog import Backlog, Entry, Shard, Shards, Unsent
from webtraj.collectors.gate import Gate, Pauses
from webtraj.collectors.sending import BusyError, EpisodeSender, SentEpisode, StoppedError
from webtraj.collectors.shared_work import SharedWork
from webtraj.store.blobs import Blob

__all__ = ["Flush", "UploadStatus", "Uploader"]

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
