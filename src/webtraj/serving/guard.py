"""Run a server without leaving any process behind: `guard.py PATIENCE PROGRAM ARGUMENT...`.

This script is the parent of every model server. It runs by file name and uses only the standard
library. vLLM's server has children, the engine and its workers, which hold the memory and survive
when it is killed. So the guard prints the server's process id, keeps running, and ends the server
with all its descendants as soon as one of these happens:

* standard input closes: webtraj closed it, or has died for any reason;
* the guard receives SIGTERM;
* the server ends by itself.

The server first gets SIGTERM and has PATIENCE seconds; what remains is then killed. On Linux,
orphans of the server become the guard's own children, even those that left the server's process
group, so none is missed. The guard's exit status is the server's, in the shell's convention.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36

_PARENT_CHECK_INTERVAL = 1.0
"""Seconds between checks of our parent, since its forks may hold our standard input open."""


def main(patience: str, *command: str) -> int:
    """Guard a server until it ends; return its exit status."""
    parent = os.getppid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def die_with_guard() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    if libc is not None:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken = _wake_up_at(signal.SIGCHLD, signal.SIGTERM)
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,  # Both go to the log; webtraj reads our standard output.
        process_group=0,
        preexec_fn=die_with_guard,  # Safe: this process has no threads.
    )
    print(server.pid, flush=True)  # noqa: T201
    while server.poll() is None:
        ready, _, _ = select.select([sys.stdin, woken], [], [], _PARENT_CHECK_INTERVAL)
        if sys.stdin in ready or os.getppid() != parent:
            break
        if woken in ready and bytes([signal.SIGTERM]) in os.read(woken, 1024):
            break
    _end(server, float(patience))
    return server.returncode if server.returncode >= 0 else 128 - server.returncode


def _wake_up_at(*numbers: signal.Signals) -> int:
    """Return a file descriptor that delivers the numbers of arriving signals."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return read


def _end(server: subprocess.Popen[bytes], patience: float) -> None:
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(patience)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    while children := list(_children()):
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _children() -> Iterator[int]:
    """Yield this process's children, including adopted ones; nothing without /proc."""
    if sys.platform != "linux":
        return
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError), open(f"{entry.path}/stat") as file:  # noqa: PTH123
                # "PID (NAME) STATE PARENT ...", and the name may contain anything.
                if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                    yield int(entry.name)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
