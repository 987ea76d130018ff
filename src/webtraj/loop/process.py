"""Run one phase's command as a child process, with its output in a log.

The child runs under the guard of `webtraj.serving`, so no part of it outlives us. If this process
ends or is killed, the child gets SIGTERM, and SIGKILL some time later. It holds a lock while it
lives, and a resumed loop waits for that lock.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from webtraj.loop import lock_holder
from webtraj.serving.process import GuardedProcess
from webtraj.store import files

__all__ = ["run_command", "until_free", "with_lock"]

_POLL = 0.5
"""Seconds between checks of the log and of a lock."""
_LINE = 300
"""Most characters of a line to report."""


async def run_command(
    command: Sequence[str],
    *,
    log: Path,
    lock: Path,
    patience: float,
    said: Callable[[str], None],
) -> int:
    """Run a command to its end; return its exit status, 128 + n for signal n.

    If cancelled, it stops the command cleanly and waits for its end.

    Args:
        command: The program and its arguments.
        log: Receives its output, appended.
        lock: The file whose lock it holds.
        patience: Seconds between asking it to end and killing it.
        said: Called now and then with the last line that it printed.
    """
    files.make_folder(log.parent)
    files.make_folder(lock.parent)
    process = GuardedProcess(
        with_lock(lock, command),
        variables={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "120"},
        log_file=log,
        patience=patience,
    )
    seen = os.stat(log).st_size  # noqa: PTH116
    ended = asyncio.ensure_future(process.wait())
    try:
        while not ended.done():
            await asyncio.wait([ended], timeout=_POLL)
            line, seen = _last_line(log, seen)
            if line:
                said(line)
        return ended.result()
    finally:
        ended.cancel()
        await process.stop()


def with_lock(lock: Path, command: Sequence[str]) -> tuple[str, ...]:
    """Return a command that waits for a lock and then becomes the given one, which holds it."""
    return (sys.executable, "-I", "-S", lock_holder.__file__, str(lock), *command)


async def until_free(lock: Path, waiting: Callable[[], None]) -> None:
    """Wait until a lock is free.

    Args:
        lock: The lock's file.
        waiting: Called once if the lock is not free yet.
    """
    reported = False
    while True:
        try:
            with files.lock_file(lock, wait=False):
                return
        except BlockingIOError:
            if not reported:
                waiting()
                reported = True
            await asyncio.sleep(_POLL)


def _last_line(log: Path, seen: int) -> tuple[str, int]:
    """Return the last complete line written after `seen`, and the end of the log."""
    with log.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        if end <= seen:
            return "", seen
        file.seek(max(seen, end - 4096))
        text = file.read().decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1][:_LINE] if lines else ""), end
