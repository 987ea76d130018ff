"""A loop's process and all under it: which is which, and killing them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import psutil

__all__ = ["Loop", "Target", "adopt_orphans", "left_over"]

Target = Literal["loop", "all", "phase", "server"]
"""The loop's own process; it and all under it, in one moment; the process of the phase that runs;
the model's server."""

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_POLL = 0.02
_awaited: set[int] = set()
"""Children that somebody waits for, and so must not be buried by others."""


def adopt_orphans() -> None:
    """Makes orphans of our children our own children, so that none gets out of sight."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("The kernel gives us no orphans.")


def left_over(patience: float) -> list[str]:
    """Returns what still runs under us after so many seconds, in words."""
    deadline = time.monotonic() + patience
    while (found := _alive(psutil.Process())) and time.monotonic() < deadline:
        time.sleep(_POLL * 10)
    return [f"{process.pid}: {' '.join(_command(process))[:200]}" for process in found]


class Loop:
    """One life of a loop: `webtraj loop` in a process of its own."""

    def __init__(self, command: Sequence[str], *, log: Path, variables: Mapping[str, str]) -> None:
        with log.open("ab") as file:
            self.said_before = file.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        _awaited.add(self._process.pid)
        self._log = log

    def status(self) -> int | None:
        """Returns its exit status, below 0 of a signal; None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """Returns what it has said in this life."""
        with self._log.open("rb") as file:
            file.seek(self.said_before)
            return file.read().decode(errors="replace")

    def wait(self) -> int:
        """Waits for its end."""
        return self._process.wait()

    def phase(self) -> psutil.Process | None:
        """Returns the process of the phase that runs."""
        return next((one for one in self._guarded() if _is_phase(one)), None)

    def server(self) -> psutil.Process | None:
        """Returns the model's server."""
        return next((one for one in self._guarded() if _is_server(one)), None)

    def kill(self, target: Target) -> bool:
        """Kills something; returns whether it was there."""
        if target == "all":
            self._kill_all()
            return True
        find = {
            "loop": lambda: psutil.Process(self._process.pid),
            "phase": self.phase,
            "server": self.server,
        }[target]
        victim = find()
        if victim is None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
            return True
        return False

    def _kill_all(self) -> None:
        """Stops all first: nobody sees another die, as when the machine does."""
        me, stopped = psutil.Process(), set[int]()
        while running := [one for one in _alive(me) if one.pid not in stopped]:
            for one in running:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.send_signal(signal.SIGSTOP)
                stopped.add(one.pid)
        for one in _alive(me):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.wait()
        while _alive(me):
            time.sleep(_POLL)

    def _guarded(self) -> list[psutil.Process]:
        """Returns what the loop's guards guard."""
        found: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for guard in psutil.Process(self._process.pid).children():
                if any(part.endswith("guard.py") for part in _command(guard)):
                    found += _living(guard.children())
        return found


def _is_server(process: psutil.Process) -> bool:
    return any("vllm.entrypoints" in part for part in _command(process))


def _is_phase(process: psutil.Process) -> bool:
    """Whether it is a phase's command, and no orphan of one, which its guard has adopted."""
    command = _command(process)
    module = command[command.index("-m") + 1] if "-m" in command else ""
    return module.partition(".")[0] in ("webtraj", "two_cores")


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return list(process.cmdline())
    return []


def _alive(me: psutil.Process) -> list[psutil.Process]:
    """Returns all that live under us, and buries the dead that nobody else buries."""
    for child in me.children():
        with contextlib.suppress(psutil.NoSuchProcess, ChildProcessError):
            if child.status() == psutil.STATUS_ZOMBIE and child.pid not in _awaited:
                os.waitpid(child.pid, os.WNOHANG)
    return _living(me.children(recursive=True))


def _living(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    living: list[psutil.Process] = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                living.append(process)
    return living
