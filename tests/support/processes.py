"""The live processes under one: each may end while it is looked at, which is no fault of a test."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import psutil


def command_of(process: psutil.Process) -> Sequence[str]:
    """Return the words of a process's command line, none if it is dead or a zombie."""
    with contextlib.suppress(psutil.Error):
        return list(process.cmdline())
    return []


def parent_of(process: psutil.Process) -> int:
    """Return the number of a process's parent, 0 if it is dead."""
    with contextlib.suppress(psutil.Error):
        return process.ppid()
    return 0


def lives(process: psutil.Process) -> bool:
    """Return whether a process is neither dead nor a zombie."""
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def descendants(of: int | None = None, *, word: str = "") -> list[psutil.Process]:
    """Return the live processes under `of`, this process by default.

    Args:
        word: Only those whose command line has this word.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        under = psutil.Process(of).children(recursive=True)
        commands = [(one, command_of(one)) for one in under]
        return [one for one, words in commands if (word in words if word else words)]
    return []


def browsers(of: int | None = None) -> list[psutil.Process]:
    """Return the browsers under `of`, without their own processes."""
    found = []
    for one in descendants(of):
        words = command_of(one)
        types = any(word.startswith("--type=") for word in words)
        if words and "chrom" in words[0].rpartition("/")[2] and not types:
            found.append(one)
    return found


def kill_browsers(of: int | None = None) -> None:
    """Kill every browser under `of`."""
    for browser in browsers(of):
        with contextlib.suppress(psutil.NoSuchProcess):
            browser.kill()
