"""Work on many episodes by a process per core.

A process is a fresh interpreter that imports only webtraj. It does not import the caller's
`__main__`, as multiprocessing does, and is not forked, which is unsafe with threads. Its parent
sends jobs over a pipe, so it ends with its parent, whatever ends that. Ctrl-C reaches only the
parent.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from webtraj import errors

__all__ = ["Workers", "cores", "serve"]

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")
_MOST = 8


def cores() -> int:
    """Return how many processes to start: one per core, at most eight; 1 without an interpreter."""
    if not sys.executable:
        return 1
    found = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(found, _MOST)


class Workers(Generic[_Job, _Result]):
    """Processes that each do one job at a time. Call `close` when done."""

    def __init__(self, work: Callable[[_Job], _Result], size: int) -> None:
        """Start the processes.

        Args:
            work: The function that does a job. It is pickled once per process, and jobs and results
                each time. It raises a `WebtrajError` if a job cannot be done.
            size: The number of processes.
        """
        self._work = work
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        command = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"]
        path = os.pathsep.join(filter(None, sys.path))
        self._processes = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
                process_group=0,
            )
            for _ in range(size)
        ]
        for process in self._processes:
            with contextlib.suppress(OSError):  # It died already; `do` does without it.
                self._send(process, work)
            self._idle.put(process)

    def do(self, job: _Job) -> _Result:
        """Do a job in one of the processes, or in this one if that fails. Waits for the result.

        Raises:
            WebtrajError: The job cannot be done.
        """
        process = self._idle.get()
        try:
            self._send(process, job)
            assert process.stdout is not None
            done, result = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            process.kill()
            done = False
        finally:
            self._idle.put(process)
        return result if done else self._work(job)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            with contextlib.suppress(OSError):  # It has not read all that was sent.
                process.communicate()

    def _send(self, process: subprocess.Popen[bytes], what: Any) -> None:
        assert process.stdin is not None
        pickle.dump(what, process.stdin, pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()


def serve() -> None:
    """Do the jobs that arrive over stdin until it closes. Runs in each process of `Workers`."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Prints go to stderr, not among the results.
    with contextlib.suppress(EOFError, BrokenPipeError):
        work = pickle.load(sys.stdin.buffer)
        while True:
            job = pickle.load(sys.stdin.buffer)
            try:
                done = True, work(job)
            except errors.WebtrajError:
                done = False, None  # The other end does it again, and raises.
            pickle.dump(done, results, pickle.HIGHEST_PROTOCOL)
            results.flush()
