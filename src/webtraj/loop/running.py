"""One phase's command as a child process: watched, logged, ended when we are ended.

The child runs under the guard of `webtraj.serving`, so nothing of it outlives us: if we are ended,
or killed, it is asked to end by SIGTERM, has its patience for that, and is killed then. It holds a
lock for as long as it lives, which whoever goes on with the loop waits for.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from webtraj.loop import holding
from webtraj.serving import process
from webtraj.serving.process import GuardedProcess
from webtraj.store import files

__all__ = ["holding_lock", "run_command", "tail", "until_free"]

_POLL = 0.5
"""Seconds between looks at the log, and at a lock."""
_LINE = 300
"""Characters of a line that are told."""


async def run_command(
    command: Sequence[str],
    *,
    log: Path,
    lock: Path,
    patience: float,
    said: Callable[[str], None],
) -> int:
    """Runs a command to its end; returns its exit status, 128 + n for signal n.

    Being cancelled ends it in good order, and waits for that.

    Args:
        command: The program and its arguments.
        log: Gets what it prints, at the end of what is in there.
        lock: The file that it holds the lock of.
        patience: Seconds that it has to end when it is asked to.
        said: Is called with the last line that it printed, now and then.
    """
    files.make_folder(log.parent)
    files.make_folder(lock.parent)
    process = GuardedProcess(
        holding_lock(lock, command),
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


def holding_lock(lock: Path, command: Sequence[str]) -> tuple[str, ...]:
    """Returns a command that waits for a lock, and then is the given one, which holds it."""
    return (sys.executable, "-I", "-S", holding.__file__, str(lock), *command)


async def until_free(lock: Path, waiting: Callable[[], None]) -> None:
    """Waits until nobody holds a lock.

    Args:
        lock: Its file.
        waiting: Is called once, if there is something to wait for.
    """
    told = False
    while True:
        try:
            with files.locked(lock, wait=False):
                return
        except BlockingIOError:
            if not told:
                waiting()
                told = True
            await asyncio.sleep(_POLL)


def tail(log: Path, start: int) -> str:
    """Returns the last lines of a log that were written after `start`."""
    return process.tail(log, start)


def _last_line(log: Path, seen: int) -> tuple[str, int]:
    """Returns the last whole line that was written after `seen`, and where the log ends."""
    with log.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        if end <= seen:
            return "", seen
        file.seek(max(seen, end - 4096))
        text = file.read().decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1][:_LINE] if lines else ""), end
