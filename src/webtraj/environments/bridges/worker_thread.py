"""One thread that makes every call on an object that must not change threads."""

from __future__ import annotations

import concurrent.futures
import contextvars
import dataclasses
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from webtraj.environments.bridges import backstop

__all__ = ["WorkerThread"]

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
            backstop.forget(self)

    def _finish(self) -> None:
        try:
            self._last_call()
        except Exception:
            _LOGGER.warning(
                "%s was never closed, and closing it failed.", self._name, exc_info=True
            )
