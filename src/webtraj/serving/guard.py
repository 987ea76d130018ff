"""Runs a server that must leave nothing behind: `guard.py PATIENCE PROGRAM ARGUMENT...`.

Run as a script by file name, with the standard library only, as the parent of every model server.
vLLM's server has children of its own, the engine and its workers, which hold the memory and which
live on when it is killed. So the guard stays: it prints the server's process id, and ends the
server and all that descends from it when the first of these happens:

* standard input ends: webtraj closed it, or is no more, however it died;
* the guard gets SIGTERM;
* the server ends by itself.

The server is asked by SIGTERM and has PATIENCE seconds; what is left then is killed. On Linux,
orphans of the server become the guard's own children, so that none is missed, also of those that
left the server's process group. The guard's exit status is the server's, as a shell tells it.
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
"""Seconds between looks at our parent: what it forked may hold our standard input open."""


def main(patience: str, *command: str) -> int:
    """Guards a server to its end; returns its exit status."""
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
        stdout=sys.stderr,  # Both are the log; our standard output is webtraj's.
        process_group=0,
        preexec_fn=die_with_guard,  # There are no threads that it could disturb.
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
    """Returns a file descriptor from which the numbers of arriving signals can be read."""
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
    """Yields our children, adopted ones too; none where /proc does not tell."""
    if sys.platform != "linux":
        return
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError), open(f"{entry.path}/stat") as file:  # noqa: PTH123
                # "PID (NAME) STATE PARENT ...", and a name may hold anything.
                if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                    yield int(entry.name)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
