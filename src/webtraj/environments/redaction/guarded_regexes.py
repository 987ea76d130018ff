"""Regexes that somebody else wrote, run so that none can hang a recording.

Python's regexes may take exponential time, and cannot be stopped from within their process. So they
run in a process of their own, which ends itself when a text takes too long; the next text gets a
new one. It costs 30 ms once and about 0.05 ms a text.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["GuardedRegexes", "shared_regexes"]

_WORKER: Final = Path(__file__).with_name("regex_worker.py")
_LENGTH = struct.Struct(">I")


class GuardedRegexes:
    """Finds regexes in texts, within a time. Safe to share between threads.

    Args:
        regexes: Valid regexes by name.
        seconds: How long all of them may take for one text.
    """

    def __init__(self, regexes: Mapping[str, str], *, seconds: float) -> None:
        self._names = tuple(regexes)
        self._sources = json.dumps(list(regexes.values())).encode()
        self._seconds = seconds
        self._lock = threading.Lock()
        self._worker: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize[..., GuardedRegexes] | None = None
        self._owner = 0

    def find(self, text: str) -> list[tuple[str, int, int]]:
        """Returns what is found as name, start and end, ordered by name.

        Raises:
            TimeoutError: It takes too long.
            OSError: There can be no such process.
        """
        if not self._names:
            return []
        data = text.encode("utf-8", "surrogatepass")
        with self._lock:
            # A forked process shares pipes with its parent, whose worker it must leave alone.
            if self._worker is None or self._owner != os.getpid():
                self._start()
            answer = self._ask(data)
            if answer is None:
                stopped = self._stop()
                if stopped != -signal.SIGALRM:
                    # It was killed by somebody else, say for memory: that is not the text's fault.
                    self._start()
                    answer = self._ask(data)
                    if answer is None:
                        self._stop()
        if answer is None:
            raise TimeoutError(
                f"The regexes {', '.join(self._names)} took more than {self._seconds:g} s for a "
                f"text of {len(text)} characters."
            )
        return [(self._names[which], start, end) for which, start, end in json.loads(answer)]

    def _start(self) -> None:
        command = [sys.executable, "-I", "-S", str(_WORKER), str(self._seconds)]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._worker, self._owner = worker, os.getpid()
        self._finalizer = weakref.finalize(self, _end, worker, os.getpid())
        _send(worker, self._sources)

    def _ask(self, data: bytes) -> bytes | None:
        """Returns the worker's answer; None if it is gone."""
        worker = self._worker
        assert worker is not None
        assert worker.stdout is not None
        if not _send(worker, data):
            return None
        header = worker.stdout.read(_LENGTH.size)
        if len(header) < _LENGTH.size:
            return None
        size = _LENGTH.unpack(header)[0]
        answer = worker.stdout.read(size)
        return answer if len(answer) == size else None

    def _stop(self) -> int:
        """Ends the worker; returns its exit status."""
        worker, self._worker = self._worker, None
        assert worker is not None
        assert self._finalizer is not None
        self._finalizer.detach()
        return _end(worker, os.getpid())


@functools.lru_cache(maxsize=4)
def shared_regexes(regexes: tuple[tuple[str, str], ...], seconds: float) -> GuardedRegexes:
    """Returns what finds these regexes, one for all who ask: one process serves many episodes."""
    return GuardedRegexes(dict(regexes), seconds=seconds)


def _send(worker: subprocess.Popen[bytes], data: bytes) -> bool:
    assert worker.stdin is not None
    try:
        worker.stdin.write(_LENGTH.pack(len(data)) + data)
        worker.stdin.flush()
    except BrokenPipeError:
        return False
    return True


def _end(worker: subprocess.Popen[bytes], owner: int) -> int:
    if owner != os.getpid():
        return 0
    for pipe in (worker.stdin, worker.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):
            pipe.close()
    try:
        return worker.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        worker.kill()
        return worker.wait()
