"""Faults to inject in tests of failures."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator
from typing import Any, Literal
from unittest import mock

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import EpisodeRecorder, TrajectoryCollector, begin

__all__ = ["FailingCollector", "disk_full", "file_size_limit"]

Method = Literal[
    "begin_episode",
    "record_info",
    "record_intent",
    "record_step",
    "end_episode",
    "drain",
    "seal",
    "flush",
    "aclose",
]
"""The methods of a collector and its recorders."""


class FailingCollector(TrajectoryCollector):
    """A collector that forwards to another and fails at a chosen call.

    Args:
        collector: The collector that receives the other calls.
        method: The method that fails, on the collector or any of its recorders.
        on_call: The number of the call that fails, from 1, counted over all episodes. None makes
            every call fail.
        error: Makes the exception; by default a `CollectorError`.

    Attributes:
        calls: The number of calls of `method` so far.
    """

    def __init__(
        self,
        collector: TrajectoryCollector,
        method: Method,
        *,
        on_call: int | None = 1,
        error: Callable[[], BaseException] = lambda: errors.CollectorError("injected fault"),
    ) -> None:
        self._collector = collector
        self._method = method
        self._on_call = on_call
        self._error = error
        self.calls = 0

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> EpisodeRecorder:
        """See `TrajectoryCollector.begin_episode`."""
        self._check("begin_episode")
        return _FailingRecorder(begin(self._collector, info), self._check)

    async def drain(self) -> None:
        """See `TrajectoryCollector.drain`."""
        self._check("drain")
        await self._collector.drain()

    async def seal(self) -> None:
        """See `TrajectoryCollector.seal`. It flushes, so a failing `flush` fails here too."""
        self._check("seal")
        await self.flush()

    async def flush(self) -> None:
        """See `TrajectoryCollector.flush`."""
        self._check("flush")
        await self._collector.flush()

    async def aclose(self) -> None:
        """See `TrajectoryCollector.aclose`."""
        self._check("aclose")
        await self._collector.aclose()

    def __getattr__(self, name: str) -> Any:
        if name == "_collector" or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._collector, name)

    def _check(self, method: Method) -> None:
        if method != self._method:
            return
        self.calls += 1
        if self._on_call is None or self.calls == self._on_call:
            raise self._error()


class _FailingRecorder:
    """A recorder that forwards to another, unless `check` raises."""

    def __init__(self, recorder: EpisodeRecorder, check: Callable[[Method], None]) -> None:
        self._recorder = recorder
        self._check = check

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        self._check("record_info")
        self._recorder.record_info(info)

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        self._check("record_intent")
        self._recorder.record_intent(action, decision=decision)

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        self._check("record_step")
        self._recorder.record_step(step)

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        self._check("end_episode")
        self._recorder.end_episode(end)


@contextlib.contextmanager
def file_size_limit(num_bytes: int) -> Iterator[None]:
    """Make the kernel limit the size of this process's files to `num_bytes`.

    This is a real fault for every writer in the process: as on a full disk, a write that crosses
    the limit is cut short, and the next one fails (with EFBIG).

    Args:
        num_bytes: The limit. Larger existing files can still be read and truncated.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python ignores the signal; an embedding program may not.
    handler = signal.getsignal(signal.SIGXFSZ)
    if handler is not signal.SIG_IGN:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        if handler is not signal.SIG_IGN:
            signal.signal(signal.SIGXFSZ, handler)


@contextlib.contextmanager
def disk_full(*, after_bytes: int = 0) -> Iterator[None]:
    """Fail `os.write` with ENOSPC after `after_bytes` have been written through it.

    As on a real full disk, the write that crosses the limit is cut short first. If the error need
    not be ENOSPC, prefer `file_size_limit`, which the kernel enforces.

    Args:
        after_bytes: The number of bytes that still fit.
    """
    write = os.write
    left = after_bytes

    def write_limited(descriptor: int, data: Any, /) -> int:
        nonlocal left
        view = memoryview(data).cast("B")
        if view.nbytes and not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, view[:left])
        left -= written
        return written

    with mock.patch.object(os, "write", write_limited):
        yield
