"""Bridges between the asynchronous contract of webtraj and the synchronous one of dm_env.

`as_sync` turns any webtraj environment into a true `dm_env.Environment`; `as_async` turns any
dm_env environment into a webtraj one. A bridge runs its environment on one thread, because
environments hold objects that belong to one event loop or thread (a browser, a simulator). Each
bridge has its own thread, except browser environments behind `as_sync`, which share one thread and
so their browsers.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import contextvars
import dataclasses
import functools
import inspect
import logging
import os
import queue
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, ClassVar, NoReturn, Self, TypeVar, cast

import dm_env

from webtraj import errors
from webtraj.environments import base

__all__ = [
    "AsyncEnvironment",
    "LoopThread",
    "SyncEnvironment",
    "WorkerThread",
    "WrapsEnvironment",
    "as_async",
    "as_sync",
    "at_end_of",
    "forget",
    "is_async",
    "name_of",
]

# The threads that bridges own: one that makes every call on an object, one that runs an event loop.
#
# anyio's portal takes the place of neither. It cancels a call at its every await, so that what an
# interrupted call cleans up is cut off; an exit of the environment ends it; and its threads cannot
# be left behind by a fork or a hanging `close`.

# Ending the threads of bridges that were never closed: at garbage collection and at exit.
#
# This is only a backstop: it closes in the background, on a best-effort basis, and can report
# errors only to the log. Close your environments.

EXIT_GRACE = 10.0
"""Seconds that Python waits at exit for all abandoned environments to close."""


_running: set[WorkerThread | LoopThread] = set()


def at_end_of(owner: object, thread: WorkerThread | LoopThread) -> None:
    """Abandon `thread` when `owner` is garbage-collected or Python exits."""
    _running.add(thread)
    # Collection may happen in any thread, including this one, so it must not wait.
    weakref.finalize(owner, thread.abandon).atexit = False


def forget(thread: WorkerThread | LoopThread) -> None:
    """Stop tracking `thread`, which has ended."""
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

_CLOSE_FAILED = "%s was never closed, and closing it failed."

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
    """A daemon thread that runs calls one at a time, in the order of submission.

    The thread starts with the first call and ends with `stop`; a later call starts another. Unlike
    the threads of a ThreadPoolExecutor it is a daemon, so a hanging call cannot keep Python from
    exiting.

    Args:
        name: The thread's name, for debuggers and logs.
        last_call: Called before the thread ends, if it is abandoned rather than stopped.
    """

    def __init__(self, *, name: str, last_call: Callable[[], object]) -> None:
        self._name = name
        self._last_call = last_call
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def submit(self, function: Callable[..., _T], *args: Any) -> concurrent.futures.Future[_T]:
        """Run `function(*args)` on the thread, in a copy of the caller's context."""
        if not self.running:
            self._start()
        context = contextvars.copy_context()
        future: concurrent.futures.Future[_T] = concurrent.futures.Future()
        self._jobs.put(_Job(call=lambda: context.run(function, *args), future=future))
        return future

    def stop(self) -> None:
        """End the thread after all submitted calls, and wait for it."""
        self._jobs.put(None)
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def abandon(self) -> None:
        """Make the last call and end the thread, without waiting for either."""
        if self.running:
            self._jobs.put(_Job(call=self._finish, future=concurrent.futures.Future()))
            self._jobs.put(None)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, at most `timeout` seconds."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _start(self) -> None:
        # A new queue: the previous thread, if any, may still be ending.
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
            _LOGGER.warning(_CLOSE_FAILED, self._name, exc_info=True)


_CALLED_FROM_ITS_OWN_LOOP = (
    "A synchronous environment was called from its own event loop, where waiting for the answer "
    "would deadlock. Call it from another thread; in asynchronous code, await the asynchronous "
    "environment itself."
)

_LONGEST_WAIT = 0.5
"""Seconds that a thread waits for a lock at a time. A Ctrl-C that arrives just before the wait is
handled only when the wait ends, so an unlimited wait would need a second Ctrl-C."""


class LoopThread:
    """An event loop in a background thread that runs coroutines and returns their results.

    The thread starts with the first `run` and ends with `stop`; a later `run` starts another. Once
    it is started, several threads may use it at once.

    Args:
        name: The thread's name, for debuggers and logs.
        last_call: Run on the loop before it ends, if it is abandoned rather than stopped.
        shared: Whether to use the process's shared loop, which ends with its last user.
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
        """Whether its thread is running."""
        return self._host is not None and self._host.alive and not self._left.is_set()

    def run(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Await `call()` on the loop, in a copy of the caller's context, and return its result.

        An exception that arrives in the waiting thread, such as KeyboardInterrupt, cancels the call
        and is raised once the call has ended, so nothing keeps running in the background. A second
        one is raised at once; the next `run` then first waits for the call to end.

        Raises:
            EnvironmentMisuseError: The caller is on the loop's own thread.
        """
        self._refuse_own_thread()
        if not self.running:
            self._unfinished = None
            self._left.clear()
            self._host = _Host.share_with(self) if self._shared else _Host(self._name, self)
        if (unfinished := self._unfinished) is not None:  # Another thread may clear it.
            _wait_for(unfinished)
            self._unfinished = None
        assert self._host is not None
        loop = self._host.loop
        # Not run_coroutine_threadsafe: cancelling its future marks it as done at once, while the
        # coroutine is still ending, and we must wait for that end.
        finished: concurrent.futures.Future[_T] = concurrent.futures.Future()
        task: asyncio.Task[None] | None = None

        async def supervise() -> None:
            # Everything goes to the waiting thread: KeyboardInterrupt or SystemExit would otherwise
            # end the loop, and with it the thread.
            try:
                finished.set_result(await call())
            except BaseException as error:
                finished.set_exception(error)

        def begin() -> None:
            nonlocal task
            task = loop.create_task(supervise(), name=self._name)
            task.add_done_callback(ensure_finished)

        def cancel() -> None:
            if task is not None:
                task.cancel()
            else:  # Interrupted before the call was submitted.
                ensure_finished()

        def ensure_finished(task: object = None) -> None:
            # A task that is cancelled before its first step never gets to run its own code.
            if not finished.done():
                finished.set_exception(asyncio.CancelledError())

        try:
            loop.call_soon_threadsafe(begin)  # It copies the caller's context.
            _wait_for(finished)
            return finished.result()
        except BaseException:
            if not finished.done():  # Raised in this thread, not by the call.
                self._unfinished = finished
                loop.call_soon_threadsafe(cancel)
                _wait_for(finished)
                self._unfinished = None
            raise

    def stop(self) -> None:
        """Cancel whatever still runs on the thread, and join it unless others share it."""
        self._refuse_own_thread()
        self._leave()
        self.join()

    def abandon(self) -> None:
        """Run the last call and end the thread, without waiting for either."""
        if self.running and self._host is not None:
            loop = self._host.loop
            try:
                loop.call_soon_threadsafe(lambda: loop.create_task(self._finish()))
            except RuntimeError:  # The loop was closed a moment ago.
                _LOGGER.debug("%s ended before it could be abandoned.", self._name)

    def join(self, timeout: float | None = None) -> None:
        """Wait until its thread has ended, at most `timeout` seconds."""
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
            _LOGGER.warning(_CLOSE_FAILED, self._name, exc_info=True)
        finally:
            self._leave()


class _Host:
    """A thread with an event loop that ends with its last user."""

    _shared: ClassVar[_Host | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    loop: asyncio.AbstractEventLoop
    _stop_requested: asyncio.Event

    def __init__(self, name: str, user: LoopThread) -> None:
        self.users = {user}
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._started = threading.Event()
        self.thread.start()
        self._started.wait()

    @classmethod
    def share_with(cls, user: LoopThread) -> _Host:
        """Return the shared host, starting it if needed."""
        with cls._lock:
            if cls._shared is None or not cls._shared.alive:
                cls._shared = cls("as_sync", user)
            cls._shared.users.add(user)
            return cls._shared

    @classmethod
    def forget_shared(cls) -> None:
        """Forget the shared host, which does not exist in a fork."""
        cls._lock = threading.Lock()
        cls._shared = None

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self.thread.is_alive()

    def end_for(self, user: LoopThread) -> None:
        """Stop using the thread, and end it if nobody else does. Do not wait for the end."""
        with _Host._lock:
            self.users.discard(user)
            if self.users:
                return
            if _Host._shared is self:  # The next user starts another.
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


def _wait_for(future: concurrent.futures.Future[Any]) -> None:
    while not future.done():
        with contextlib.suppress(TimeoutError):
            future.exception(_LONGEST_WAIT)


# What both bridges share: forwarding attributes, telling environments apart, refusing copies.

_NO_COPY = (
    "{bridge} cannot be pickled or copied: it owns a thread and the environment that lives there. "
    "Send a function that builds the environment instead, and call as_sync or as_async there."
)


def name_of(environment: Any) -> str:
    """Return the name of an environment, usually its class, for the record."""
    name = getattr(environment, "environment_name", None)
    return name if isinstance(name, str) else type(environment).__name__


class WrapsEnvironment:
    """An environment around another, `_environment`, that forwards its specs and attributes."""

    _environment: Any

    @property
    def environment_name(self) -> str:
        """The name of the wrapped environment, usually its class, for the record."""
        return name_of(self._environment)

    def observation_spec(self) -> Any:
        """Return the wrapped environment's."""
        return self._call_for_spec(self._environment.observation_spec)

    def action_spec(self) -> Any:
        """Return the wrapped environment's."""
        return self._call_for_spec(self._environment.action_spec)

    def reward_spec(self) -> Any:
        """Return the wrapped environment's."""
        return self._call_for_spec(self._environment.reward_spec)

    def discount_spec(self) -> Any:
        """Return the wrapped environment's."""
        return self._call_for_spec(self._environment.discount_spec)

    def _call_for_spec(self, spec: Callable[[], Any]) -> Any:
        return spec()

    def __getattr__(self, name: str) -> Any:
        # Dunders are not forwarded: copy and pickle would act on the wrong object. `_environment`
        # is missing only during construction.
        if name == "_environment" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._environment, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._environment!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(_NO_COPY.format(bridge=type(self).__name__))


def is_async(environment: Any) -> bool:
    """Return whether an environment follows webtraj's asynchronous contract, not dm_env's."""
    return hasattr(type(environment), "__aenter__") or inspect.iscoroutinefunction(
        getattr(environment, "step", None)
    )


_NOT_AN_ENVIRONMENT = (
    "as_async takes an environment with reset and step, as dm_env defines them; "
    "got {given}. {remedy}"
)


def as_async(environment: dm_env.Environment | base.Environment) -> base.Environment:
    """Return `environment` as an asynchronous one; if it already is, return it unchanged.

    An environment that holds nothing needs no `close`.

    Raises:
        InvalidInputError: It is not an environment of either kind.
    """
    if is_async(environment):
        return cast(base.Environment, environment)
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is not None and isinstance(environment, gymnasium.Env):
        raise errors.InvalidInputError(
            _NOT_AN_ENVIRONMENT.format(
                given=f"the Gymnasium environment {environment}",
                remedy="Use webtraj.from_gymnasium for it.",
            )
        )
    if not all(callable(getattr(environment, name, None)) for name in ("reset", "step")):
        raise errors.InvalidInputError(
            _NOT_AN_ENVIRONMENT.format(
                given=f"{environment!r}", remedy="Pass an instance, not a class or a name."
            )
        )
    return AsyncEnvironment(cast(dm_env.Environment, environment))


class AsyncEnvironment(WrapsEnvironment):
    """An asynchronous environment that runs a synchronous one on a thread of its own.

    * All calls, including specs, run on one thread, one at a time, in order. The thread starts with
      the first call and ends with `close`.
    * A thread cannot be interrupted. When a task is cancelled while it waits for a call, it stops
      waiting at once, but the environment stays busy until that call returns. The next call waits
      for that, and the late timestep is discarded.
    * A cancelled call loses its episode, so the environment then counts as fresh: by dm_env's rule
      the next `step` resets, ignores its action and returns FIRST.
    * Context variables of the caller are seen by the environment.
    * `snapshot` and `restore`, where the environment has them, run on its thread, too.
    * Other attributes are forwarded unchanged, on the caller's thread; `call` uses the
      environment's.

    Args:
        environment: The synchronous environment. It belongs to the bridge from now on.
    """

    def __init__(self, environment: dm_env.Environment) -> None:
        self._environment = environment
        self._close_inner: Callable[[], object] = getattr(environment, "close", lambda: None)
        # The thread must not refer to the bridge, which ends the thread when it is collected.
        self._worker = WorkerThread(
            name=f"as_async({type(environment).__name__})", last_call=self._close_inner
        )
        self._closed = False
        # These two belong to the environment's thread.
        self._episode_lost = False
        self._environment_closed = False

    async def reset(self) -> dm_env.TimeStep:
        """See `webtraj.Environment.reset`."""
        return await self._advance(self._reset)

    async def step(self, action: Any) -> dm_env.TimeStep:
        """See `webtraj.Environment.step`."""
        return await self._advance(self._step, action)

    async def call(self, function: Callable[..., _T], *args: Any) -> _T:
        """Call `function(*args)` on the environment's thread, after earlier calls.

        For objects bound to that thread, such as a page of synchronous Playwright::

            title = await env.call(lambda: env.unwrapped.page.title())
        """
        return await asyncio.wrap_future(self._submit(function, *args))

    async def close(self) -> None:
        """Close the environment and end its thread, after any call still running. Idempotent."""
        if self._closed:
            return
        try:
            await asyncio.wrap_future(self._submit(self._close))
        except asyncio.CancelledError:
            # Still closing, or about to: a second close waits for that and ends the thread.
            raise
        except BaseException:
            self._end()
            raise
        self._end()

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if name not in ("snapshot", "restore") or not callable(value):
            return value
        first = () if name == "snapshot" else (self._restore,)
        return functools.partial(self._advance, *first, value)

    def _call_for_spec(self, spec: Callable[[], Any]) -> Any:
        # Blocks while a call is running.
        return self._submit(spec).result()

    async def __aenter__(self) -> Self:
        if hasattr(self._environment, "__enter__"):
            await self.call(self._environment.__enter__)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if hasattr(self._environment, "__exit__"):
                await self.call(self._environment.__exit__, exc_type, exc, traceback)
        finally:
            await self.close()

    async def _advance(self, function: Callable[..., _T], *args: Any) -> _T:
        try:
            result: _T = await asyncio.wrap_future(self._submit(function, *args))
            return result
        except asyncio.CancelledError:
            # Its result is discarded, even if it has arrived. A call that was still queued never
            # runs, but what follows must not depend on that.
            self._submit(self._lose_episode)
            raise

    def _submit(self, function: Callable[..., _T], *args: Any) -> Any:
        if not self._worker.running:
            at_end_of(self, self._worker)
        self._closed = False
        return self._worker.submit(function, *args)

    def _end(self) -> None:
        self._worker.stop()
        self._closed = True

    # The methods below run on the environment's thread, after all earlier calls.

    def _reset(self) -> dm_env.TimeStep:
        self._environment_closed = False
        timestep = self._environment.reset()
        self._episode_lost = False
        return timestep

    def _step(self, action: Any) -> dm_env.TimeStep:
        if self._episode_lost:
            return self._reset()
        self._environment_closed = False
        return self._environment.step(action)

    def _restore(
        self, restore: Callable[[Any], dm_env.TimeStep | None], snapshot: Any
    ) -> dm_env.TimeStep | None:
        self._environment_closed = False
        timestep = restore(snapshot)
        self._episode_lost = False
        return timestep

    def _lose_episode(self) -> None:
        self._episode_lost = True

    def _close(self) -> None:
        # A cancelled close keeps running and must not run twice.
        if not self._environment_closed:
            self._close_inner()
            self._environment_closed = True


def as_sync(environment: base.Environment | dm_env.Environment) -> dm_env.Environment:
    """Return `environment` as a synchronous one; if it already is, return it unchanged.

    >>> from webtraj.testing import fakes
    >>> with as_sync(fakes.CatchEnvironment()) as env:
    ...     env.reset().first()
    True
    """
    if not is_async(environment):
        return environment
    return SyncEnvironment(environment)


class SyncEnvironment(WrapsEnvironment, dm_env.Environment):  # type: ignore[misc]
    """A `dm_env.Environment` that runs an asynchronous environment on a loop in another thread.

    * The wrapped environment runs on one event loop from its first call to `close`. The thread
      starts with the first call and belongs to the environment. Environments whose
      `shares_event_loop` is true share one thread, and so whatever belongs to a loop, such as
      browsers. A call after `close` is forwarded on a new loop; the environment decides whether it
      can be reused.
    * An exception in the calling thread (Ctrl-C, a test's time limit) cancels the call, waits until
      it has ended and is then raised. No call keeps running in the background.
    * Context variables of the caller are seen by the environment.
    * Other attributes are forwarded; coroutine functions among them become plain functions.
    * `with` enters and exits the wrapped environment, which sees an exception inside but cannot
      suppress it.

    Args:
        environment: The asynchronous environment. It belongs to the bridge from now on: do not use
            it from another event loop.

    Raises:
        EnvironmentMisuseError: From any call made on the environment's own event loop.
    """

    def __init__(self, environment: base.Environment) -> None:
        self._environment = environment
        self._loop_thread = LoopThread(
            name=f"as_sync({type(environment).__name__})",
            last_call=environment.close,
            shared=getattr(environment, "shares_event_loop", False) is True,
        )
        self._closed = False

    def reset(self) -> dm_env.TimeStep:
        """See `dm_env.Environment.reset`."""
        return self._call(self._environment.reset)

    def step(self, action: Any) -> dm_env.TimeStep:
        """See `dm_env.Environment.step`."""
        return self._call(self._environment.step, action)

    def close(self) -> None:
        """Close the environment; end its loop and join the thread if nobody else uses them.

        Idempotent.

        Raises:
            Exception: Closing the environment failed; raised after the thread has ended.
        """
        if self._closed:
            return
        try:
            self._call(self._environment.close)
        finally:
            self._loop_thread.stop()
            self._closed = True

    def __enter__(self) -> Self:
        if hasattr(self._environment, "__aenter__"):
            self._call(self._environment.__aenter__)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if hasattr(self._environment, "__aexit__"):
                self._call(self._environment.__aexit__, exc_type, exc, traceback)
        finally:
            self.close()

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if not inspect.iscoroutinefunction(value):
            return value

        @functools.wraps(value)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(functools.partial(value, **kwargs), *args)

        return call

    def _call(self, function: Any, *args: Any) -> Any:
        if not self._loop_thread.running:
            at_end_of(self, self._loop_thread)
        self._closed = False
        return self._loop_thread.run(functools.partial(function, *args))
