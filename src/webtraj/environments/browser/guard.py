"""Run a program that must not outlive its parent: `guard.py PID_FILE STARTER PROGRAM ARGUMENT...`.

Run as a script by file name, with the standard library only, before every browser and driver that a
`BrowserPool` starts. It puts the program into a process group of its own, so that Ctrl-C in a
terminal reaches webtraj alone and a kill reaches all of the program's children; it has the program
killed when its parent dies, however that happens; and it writes its process id to PID_FILE. If that
file exists already or its folder is gone, the start was abandoned and it exits.

The kernel kills a program when the thread that started it ends. If that is the life of the parent
(STARTER is `process`), the guard asks for this and becomes the program. If a thread of the parent
started it, which may end long before the parent (STARTER is `thread`), the guard stays as the
program's parent and kills it when its own parent is gone.
"""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

_PARENT_CHECK_INTERVAL = 1.0
"""Seconds between checks of our parent."""


def main(pid_file: str, starter: str, *command: str) -> int:
    """Guard this process and become `command`, or run it."""
    parent = os.getppid()
    with contextlib.suppress(PermissionError):  # It already leads its group.
        os.setsid()
    stays = sys.platform == "linux" and starter == "thread"
    if not stays:
        _die_with(parent)
    draft = f"{pid_file}.draft"
    try:
        with open(draft, "w") as file:  # noqa: PTH123 (pathlib would double the start-up time)
            file.write(str(os.getpid()))
        os.link(draft, pid_file)  # Atomic, and never overwrites a file.
    except OSError:
        return 1
    if not stays:
        os.execv(command[0], command)
    return _run(command, parent)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # The parent died before the kernel was asked.
            sys.exit(1)


def _run(command: tuple[str, ...], parent: int) -> int:
    """Run a program; return its exit status, in the shell's convention."""
    guard = os.getpid()
    ended = [signal.SIGCHLD]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ended)
    program = os.fork()
    if program == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _die_with(guard)
        os.execv(command[0], command)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # It is meant for the program.
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):  # The program's end is seen by the end of its output.
        os.dup2(nothing, descriptor)
    while True:
        pid, status = os.waitpid(program, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if os.getppid() != parent:
            os.killpg(0, signal.SIGKILL)
        signal.sigtimedwait(ended, _PARENT_CHECK_INTERVAL)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
