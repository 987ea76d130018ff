"""Threads that bridges own: one that makes every call on an object, one that runs an event loop.

Each is closed by its bridge. A backstop ends those that nobody closed, when they are collected or
when Python exits, and only logs what goes wrong then.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import contextvars
import dataclasses
import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Protocol, TypeVar

from webtraj import errors

__all__ = ["Abandonable", "LoopThread", "WorkerThread", "at_end_of", "forget"]

# Ends the threads of bridges that nobody closed: when they are collected, and when Python exits.
#
# A backstop, not a way of life: it closes on a best-effort basis, in the background, and reports
# what went wrong to the log only, because nobody is left to raise to. Close environments.

EXIT_GRACE = 10.0
"""Seconds that exiting Python waits for abandoned environments to close, all of them together."""


class Abandonable(Protocol):
    """A thread that can be told to close what it holds and to end."""

    def abandon(self) -> None:
        """Begins to close and to end. Returns at once. Any thread may call it, repeatedly."""

    def join(self, timeout: float | None = None) -> None:
        """Waits until the thread has ended, at most `timeout` seconds."""


_running: set[Abandonable] = set()


def at_end_of(owner: object, thread: Abandonable) -> None:
    """Abandons `thread` when `owner` is collected, or else when Python exits."""
    _running.add(thread)
    # Collection may happen in any thread, this one's included, so it must not wait.
    weakref.finalize(owner, thread.abandon).atexit = False


def forget(thread: Abandonable) -> None:
    """Says that `thread` has ended."""
    _running.discard(thread)


@atexit.register
def _abandon_all() -> None:
    threads = list(_running)
    for thread in threads:
        thread.abandon()
    deadline = time.monotonic() + EXIT_GRACE
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))


_LOGGER = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class _Job:
    call: Callable[[], Any]
    future: concurrent.futures.Future[Any]

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.call()
        except StopIteration as error:
            # An asyncio future refuses a StopIteration, and whoever awaits it would wait for ever.
            replacement = RuntimeError(f"The call raised StopIteration({error.value!r}).")
            replacement.__cause__ = error
            self.future.set_exception(replacement)
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class WorkerThread:
    """Makes calls on one daemon thread, one at a time, in the order in which they were submitted.

    The thread starts with the first call and ends with `stop`; a call after that starts another. It
    is a daemon, unlike a ThreadPoolExecutor's, so that a call that hangs cannot keep Python from
    exiting.

    Args:
        name: The thread's name, for debuggers and logs.
        last_call: What to call before the thread ends, if it is abandoned rather than stopped.
    """

    def __init__(self, *, name: str, last_call: Callable[[], object]) -> None:
        self._name = name
        self._last_call = last_call
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None and self._thread.is_alive()

    def submit(self, function: Callable[..., _T], *args: Any) -> concurrent.futures.Future[_T]:
        """Has `function(*args)` called on the thread, in a copy of the caller's context."""
        if not self.running:
            self._start()
        context = contextvars.copy_context()
        future: concurrent.futures.Future[_T] = concurrent.futures.Future()
        self._jobs.put(_Job(call=lambda: context.run(function, *args), future=future))
        return future

    def stop(self) -> None:
        """Ends the thread after the calls that were submitted before, and waits for that."""
        self._jobs.put(None)
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def abandon(self) -> None:
        """Makes the last call and ends the thread, without waiting for either."""
        if self.running:
            self._jobs.put(_Job(call=self._finish, future=concurrent.futures.Future()))
            self._jobs.put(None)

    def join(self, timeout: float | None = None) -> None:
        """Waits until the thread has ended, at most `timeout` seconds."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _start(self) -> None:
        # A queue of its own: the old thread, if there was one, may still be on its way out.
        self._jobs = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._serve, args=(self._jobs,), name=self._name, daemon=True
        )
        self._thread.start()

    def _serve(self, jobs: queue.SimpleQueue[_Job | None]) -> None:
        try:
            while (job := jobs.get()) is not None:
                job.run()
                del job  # An idle thread must not keep the last timestep alive.
        finally:
            forget(self)

    def _finish(self) -> None:
        try:
            self._last_call()
        except Exception:
            _LOGGER.warning(
                "%s was never closed, and closing it failed.", self._name, exc_info=True
            )


_CALLED_FROM_ITS_OWN_LOOP = (
    "A synchronous environment was called from inside its own event loop, where waiting for the "
    "answer would wait for ever. Expected: a call from any other thread. In asynchronous code, use "
    "the asynchronous environment itself, with await."
)

_LONGEST_WAIT = 0.5
"""Seconds that a thread waits for a lock at a time. A Ctrl-C that comes when it is just about to
wait is seen when the wait ends: of one without an end, only the next Ctrl-C would make an end."""


class LoopThread:
    """Runs coroutines on an event loop in a background thread and waits for their results.

    The thread starts with the first `run` and ends with `stop`; a `run` after that starts another.
    Not for use by two threads at once.

    Args:
        name: The thread's name, for debuggers and logs.
        last_call: What to run on the loop before it ends, if it is abandoned rather than stopped.
        shared: Whether to run on the one loop of this process that all who say so share. It ends
            with the last of them.
    """

    def __init__(
        self, *, name: str, last_call: Callable[[], Awaitable[object]], shared: bool = False
    ) -> None:
        self._name = name
        self._last_call = last_call
        self._shared = shared
        self._host: _Host | None = None
        self._left = threading.Event()
        self._unfinished: concurrent.futures.Future[Any] | None = None

    @property
    def running(self) -> bool:
        """Whether it has a thread."""
        return self._host is not None and self._host.alive and not self._left.is_set()

    def run(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Awaits `call()` on the loop, in a copy of the caller's context, and returns its result.

        An exception that arrives in the waiting thread, such as KeyboardInterrupt, cancels the call
        and is raised once the call has ended, so that nothing goes on behind the caller's back. A
        second one is raised at once; the next `run` then begins by waiting for the call to end.

        Raises:
            EnvironmentMisuseError: The caller is on the loop's own thread.
        """
        self._refuse_own_thread()
        if not self.running:
            self._unfinished = None
            self._left.clear()
            self._host = _Host.shared_by(self) if self._shared else _Host(self._name, self)
        if self._unfinished is not None:
            _wait_for(self._unfinished)
            self._unfinished = None
        return self._run(call)

    def _run(self, call: Callable[[], Awaitable[_T]]) -> _T:
        assert self._host is not None
        loop = self._host.loop
        # Not run_coroutine_threadsafe: cancelling its future marks that as done at once, while the
        # coroutine is still on its way out, and we must wait for exactly that.
        finished: concurrent.futures.Future[_T] = concurrent.futures.Future()
        tasks: list[asyncio.Task[None]] = []

        async def supervise() -> None:
            # Everything goes to the waiting thread: KeyboardInterrupt or SystemExit would otherwise
            # end the loop, and with it the thread.
            try:
                result = await call()
            except BaseException as error:
                finished.set_exception(error)
            else:
                finished.set_result(result)

        def begin() -> None:
            task = loop.create_task(supervise(), name=self._name)
            tasks.append(task)
            task.add_done_callback(lambda _: _ensure_finished(finished))

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # Interrupted before the call was even handed over.
                _ensure_finished(finished)

        try:
            loop.call_soon_threadsafe(begin)  # It copies the caller's context.
            return _result_of(finished)
        except BaseException:
            if not finished.done():  # It was not the call that raised, but this thread.
                self._unfinished = finished
                loop.call_soon_threadsafe(cancel)
                _wait_for(finished)
                self._unfinished = None
            raise

    def stop(self) -> None:
        """Ends the thread, unless others share it: cancels what still runs on it, and joins it."""
        self._refuse_own_thread()
        self._leave()
        self.join()

    def abandon(self) -> None:
        """Runs the last call and ends the thread, without waiting for either."""
        if self.running and self._host is not None:
            loop = self._host.loop
            try:
                loop.call_soon_threadsafe(lambda: loop.create_task(self._finish()))
            except RuntimeError:  # The loop was closed a moment ago.
                _LOGGER.debug("%s ended before it could be abandoned.", self._name)

    def join(self, timeout: float | None = None) -> None:
        """Waits until it has left its thread, and that has ended; at most `timeout` seconds."""
        host = self._host
        if host is not None and host.alive and self._left.wait(timeout) and not host.users:
            host.thread.join(timeout)

    def _refuse_own_thread(self) -> None:
        if self._host is not None and threading.current_thread() is self._host.thread:
            raise errors.EnvironmentMisuseError(_CALLED_FROM_ITS_OWN_LOOP)

    def _leave(self) -> None:
        if self._host is not None:
            self._host.end_for(self)
        self._left.set()
        forget(self)

    async def _finish(self) -> None:
        try:
            await self._last_call()
        except Exception:
            _LOGGER.warning(
                "%s was never closed, and closing it failed.", self._name, exc_info=True
            )
        finally:
            self._leave()


class _Host:
    """A thread with an event loop, which ends when its last user has left."""

    _shared: ClassVar[_Host | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, name: str, user: LoopThread) -> None:
        self.users = {user}
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._started = threading.Event()
        self.thread.start()
        self._started.wait()

    loop: asyncio.AbstractEventLoop
    _stop_requested: asyncio.Event

    @classmethod
    def shared_by(cls, user: LoopThread) -> _Host:
        """Returns the shared host, started if need be."""
        with cls._lock:
            if cls._shared is None or not cls._shared.alive:
                cls._shared = cls("as_sync", user)
            cls._shared.users.add(user)
            return cls._shared

    @classmethod
    def forget_shared(cls) -> None:
        """Forgets the shared host: a fork has none of its parent's threads."""
        cls._lock = threading.Lock()
        cls._shared = None

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self.thread.is_alive()

    def end_for(self, user: LoopThread) -> None:
        """Ends the thread if no other uses it. Does not wait for the end."""
        with _Host._lock:
            self.users.discard(user)
            if self.users:
                return
            if _Host._shared is self:  # Who comes now starts another.
                _Host._shared = None
        if self.alive:
            with contextlib.suppress(RuntimeError):  # The loop was closed a moment ago.
                self.loop.call_soon_threadsafe(self._stop_requested.set)

    def _serve(self) -> None:
        # On leaving it, Runner cancels all tasks, shuts down asynchronous generators and the
        # default executor, and closes the loop.
        try:
            with asyncio.Runner() as runner:
                self.loop = runner.get_loop()
                self._stop_requested = asyncio.Event()
                self._started.set()
                runner.run(self._stop_requested.wait())
        finally:
            self._started.set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Host.forget_shared)


def _ensure_finished(finished: concurrent.futures.Future[_T]) -> None:
    # A task that is cancelled before its first step never gets to run its own code.
    if not finished.done():
        finished.set_exception(asyncio.CancelledError())


def _result_of(future: concurrent.futures.Future[_T]) -> _T:
    while not future.done():
        try:
            return future.result(_LONGEST_WAIT)
        except TimeoutError:
            continue  # Of this wait; or of the call, which is done then.
    return future.result()


def _wait_for(future: concurrent.futures.Future[Any]) -> None:
    while not concurrent.futures.wait([future], _LONGEST_WAIT).done:
        pass
