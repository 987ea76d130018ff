"""The operating system's side of browsers: guarded starts, memory, and the kill ladder."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import os
import shlex
import shutil
import signal
import sys
import tempfile
import weakref
from pathlib import Path

from webtraj.environments.browser import guard as guard_lib

__all__ = [
    "GuardedCommand",
    "RunFolder",
    "kill_group",
    "private_memory",
    "process_alive",
    "process_exists",
    "stop_group",
]

_FOLDER_PREFIX = "webtraj-run-"

_POLL_INTERVAL = 0.01
"""Seconds between looks at a process that was asked to end; no portable call waits for it, since
it is a grandchild."""


@dataclasses.dataclass(frozen=True, slots=True)
class GuardedCommand:
    """A command that runs a program under the guard, once."""

    path: Path
    """What to run in the program's place."""
    pid_file: Path
    """Where the guard tells its process id, which is the program's later."""

    @property
    def pid(self) -> int:
        """The program's process id; known when the program has given any sign of life."""
        return int(self.pid_file.read_text())

    def find(self) -> list[int]:
        """Returns the processes that run the command: the program, or the guard before it."""
        with contextlib.suppress(FileNotFoundError):
            if pid := self.pid_file.read_text():
                return [int(pid)]
        found = []
        for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # It may end while we read.
                if os.fsencode(self.path) in cmdline.read_bytes():
                    found.append(int(cmdline.parent.name))
        return found

    def abort(self) -> None:
        """Kills what the command started; if it has not started anything yet, it never will."""
        # The guard goes no further if it finds its file there already.
        with contextlib.suppress(FileNotFoundError):  # So it does if the folder is gone.
            try:
                self.pid_file.touch(exist_ok=False)
            except FileExistsError:
                if pid := self.pid_file.read_text():
                    kill_group(int(pid))


class RunFolder:
    """A pool's temporary folder: guarded commands, process ids, browser profiles.

    Its name holds our process id. A process that is killed leaves its folder behind; the next pool
    on the machine sweeps it away.
    """

    def __init__(self) -> None:
        _sweep_dead_folders(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-"))
        self._numbers = itertools.count()
        # For a pool that nobody closed: its event loop is gone, or Python exits.
        self._forget = weakref.finalize(self, _kill_all_in, self.path, os.getpid())

    def guarded(self, program: str) -> GuardedCommand:
        """Writes a command that runs `program` under the guard."""
        name = f"{Path(program).name}-{next(self._numbers)}"
        command = GuardedCommand(self.path / name, self.path / f"{name}.pid")
        guard = [sys.executable, "-I", "-S", guard_lib.__file__, str(command.pid_file), program]
        # TMPDIR: browser profiles land in this folder, to be swept with it.
        command.path.write_text(
            f'#!/bin/sh\nTMPDIR={shlex.quote(str(self.path))} exec {shlex.join(guard)} "$@"\n'
        )
        command.path.chmod(0o700)
        return command

    def remove(self) -> None:
        """Removes the folder; what a dying browser still writes is left to the next sweep."""
        self._forget.detach()
        shutil.rmtree(self.path, ignore_errors=True)


def process_exists(pid: int) -> bool:
    """Whether the process exists, if only as a zombie that waits for its parent."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def process_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie that waits for its parent."""
    if not process_exists(pid):
        return False
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] != "Z"
    return True


def kill_group(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Signals the process group that `pid` leads; does nothing if it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def stop_group(pid: int, *, patience: float) -> None:
    """Ends a process group: waits `patience` seconds, then SIGTERM and as long again, then SIGKILL.

    Returns when its leader is gone.
    """
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            kill_group(pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while process_alive(pid):  # noqa: ASYNC110 (no event tells of a grandchild)
                    await asyncio.sleep(_POLL_INTERVAL)
                break
    kill_group(pid)  # Children that outlived their leader.


def private_memory(group: int) -> int | None:
    """Returns the bytes of memory private to a process group; None where /proc does not say."""
    if sys.platform != "linux":
        return None
    page_size = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # The process may end while we read.
            if os.getpgid(int(entry.name)) == group:
                _, resident, shared, *_ = Path(entry.path, "statm").read_text().split()
                total += (int(resident) - int(shared)) * page_size
    return total


def _kill_all_in(folder: Path, owner: int) -> None:
    """Kills what a folder's commands started, and removes it; not in a fork of its owner."""
    if os.getpid() != owner:
        return
    ours = b"TMPDIR=" + os.fsencode(folder)
    for pid_file in folder.glob("*.pid"):
        with contextlib.suppress(OSError):  # It has ended, or there is no /proc to ask.
            pid = pid_file.read_text()
            # By now its number may be another process's.
            if ours in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                kill_group(int(pid))
    shutil.rmtree(folder, ignore_errors=True)


def _sweep_dead_folders(parent: Path) -> None:
    for folder in parent.glob(f"{_FOLDER_PREFIX}*-*"):
        owner = folder.name.removeprefix(_FOLDER_PREFIX).partition("-")[0]
        if owner.isdigit() and not process_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
