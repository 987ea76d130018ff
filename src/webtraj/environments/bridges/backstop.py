"""Ends the threads of bridges that nobody closed: when they are collected, and when Python exits.

A backstop, not a way of life: it closes on a best-effort basis, in the background, and reports what
went wrong to the log only, because nobody is left to raise to. Close environments.
"""

from __future__ import annotations

import atexit
import time
import weakref
from typing import Protocol

__all__ = ["Abandonable", "at_end_of", "forget"]

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
