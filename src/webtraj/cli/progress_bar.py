"""Show the progress of a long command on stderr.

A terminal gets a bar, anything else a line now and then. Short work shows neither.
"""

from __future__ import annotations

import datetime
import sys
import threading
import time

from webtraj.cli import terminal
from webtraj.datasets.progress import Progress
from webtraj.store.closeable import Closing

__all__ = ["WorkProgress"]

_FIRST_BAR, _BETWEEN_BARS = 1.0, 0.2
_FIRST_LINE, _BETWEEN_LINES = 5.0, 30.0


class WorkProgress(Closing):
    """Shows the progress of long work. Call it with each `Progress`, on any thread.

    Args:
        first: Seconds before work is first shown. Default: 1 for a bar, 5 for a line.
        between: Seconds between updates. Default: 0.2 for a bar, 30 for a line.
    """

    def __init__(self, *, first: float | None = None, between: float | None = None) -> None:
        self._first, self._between = first, between
        self._latest: Progress | None = None
        self._start = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()

    def __call__(self, progress: Progress) -> None:
        """Show the progress of the work; ignore progress of work nested in it."""
        with self._lock:
            self._take(progress)

    def _take(self, progress: Progress) -> None:
        latest = self._latest
        if latest is not None and latest.what != progress.what:
            return
        if progress.ended:
            self.close()
            return
        self._latest = progress
        if latest is None:
            self._start, self._ended = time.monotonic(), threading.Event()
            self._thread = threading.Thread(
                target=self._show,
                args=(self._ended, progress),
                name="webtraj-progress",
                daemon=True,
            )
            self._thread.start()

    def close(self) -> None:
        """Stop showing the work. Idempotent."""
        with self._lock:
            self._ended.set()
            if self._thread is not None:
                self._thread.join()
            self._latest = self._thread = None

    def _show(self, ended: threading.Event, begun: Progress) -> None:
        is_terminal = sys.stderr.isatty()
        first, between = (
            (_FIRST_BAR, _BETWEEN_BARS) if is_terminal else (_FIRST_LINE, _BETWEEN_LINES)
        )
        if ended.wait(first if self._first is None else self._first):
            return
        with terminal.Bar(begun.what) as bar:
            while True:
                progress = self._latest or begun
                if is_terminal:
                    bar.show(progress.done, progress.total or None, self._speed(progress))
                else:
                    terminal.say(self._line(progress), stderr=True)
                if ended.wait(between if self._between is None else self._between):
                    return

    def _line(self, progress: Progress) -> str:
        """Return the content of a bar as a line."""
        of = f" of {progress.total:,}" if progress.total else ""
        line = f"{progress.what}: {progress.done:,}{of}, {self._speed(progress)}"
        if not (progress.done and progress.total):
            return line
        left = (time.monotonic() - self._start) / progress.done * (progress.total - progress.done)
        return f"{line}, {datetime.timedelta(seconds=round(left))} left"

    def _speed(self, progress: Progress) -> str:
        """Return the mean speed, and the bytes if they are counted."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        items, size = f"{progress.done / seconds:,.1f}/s", progress.size / 1e6
        return f"{items}, {size:,.1f} MB, {size / seconds:,.1f} MB/s" if size else items
