"""Work that collectors do in the background, and what becomes of its failures."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable

from webtraj import errors

__all__ = ["BackgroundQueue"]

_BACKLOG = 32
"""Jobs that may wait before `drain` makes its callers wait."""
_THREADS = 4
"""The jobs wait for the disk most of the time, and disks take several requests at once."""


class BackgroundQueue:
    """Runs jobs on a few threads. A job's failure is raised once, by the next call that waits."""

    def __init__(self, name: str) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix=name)
        self._lock = threading.Lock()
        # In the order of their coming; a set would not keep that.
        self._pending: dict[concurrent.futures.Future[None], None] = {}
        self._failures: list[errors.CollectorError] = []

    @property
    def failures(self) -> list[errors.CollectorError]:
        """The failures that were not raised yet."""
        with self._lock:
            return list(self._failures)

    def submit(self, job: Callable[[], None]) -> None:
        """Has a job done that raises nothing but CollectorError."""

        def run() -> None:
            try:
                job()
            except errors.CollectorError as error:
                self.fail(error)

        with self._lock:
            try:
                self._pending[self._executor.submit(run)] = None
                return
            except RuntimeError:  # The interpreter is shutting down: no thread will do it.
                pass
        run()

    def fail(self, error: errors.CollectorError) -> None:
        """Has a failure raised by the next call that waits."""
        with self._lock:
            self._failures.append(error)

    async def drain(self) -> None:
        """Waits while more than a few jobs are waiting.

        Raises:
            CollectorError: A job failed.
        """
        await self._wait_until(_BACKLOG)

    async def flush(self) -> None:
        """Waits until all jobs are done.

        Raises:
            CollectorError: A job failed.
        """
        await self._wait_until(0)

    def wait(self) -> None:
        """Does what `flush` does, for code without an event loop.

        Raises:
            CollectorError: A job failed.
        """
        concurrent.futures.wait(self._backlog())
        self._raise_failure()

    def shut(self) -> bool:
        """Takes no more jobs; returns whether all are done."""
        self._executor.shutdown(wait=False)
        return not self._backlog()

    async def _wait_until(self, limit: int) -> None:
        # asyncio.wait leaves what it waits for alone when it is cancelled, as it must.
        while len(backlog := self._backlog()) > limit:
            # The oldest alone: to watch them all costs time for each of many that wait.
            await asyncio.wait([asyncio.wrap_future(backlog[0])])
        self._raise_failure()

    def _backlog(self) -> list[concurrent.futures.Future[None]]:
        if not self._pending:
            return []
        with self._lock:
            self._pending = {future: None for future in self._pending if not future.done()}
            return list(self._pending)

    def _raise_failure(self) -> None:
        if not self._failures:
            return
        with self._lock:
            failures, self._failures = self._failures, []
        if failures:
            first, *others = failures
            for other in others:
                first.add_note(f"And: {other}")
            raise first
