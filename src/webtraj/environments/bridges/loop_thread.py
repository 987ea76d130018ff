"""Event loops in background threads, for callers who have none."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

from webtraj import errors
from webtraj.environments.bridges import backstop

__all__ = ["LoopThread"]

_LOGGER = logging.getLogger(__name__)

_T = TypeVar("_T")

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
        backstop.forget(self)

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
