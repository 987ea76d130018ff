"""Run a program that must not outlive its parent: `guard.py PID_FILE PROGRAM ARGUMENT...`.

Run as a script by file name, with the standard library only, before every browser and driver that a
`BrowserPool` starts. It puts the program into a process group of its own, so that Ctrl-C in a
terminal reaches webtraj alone and a kill reaches all of the program's children; it asks the kernel
to kill the program when its parent dies, however that happens; and it writes the process id to
PID_FILE. If that file exists already or its folder is gone, the start was abandoned and it exits;
otherwise it becomes the program.
"""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(pid_file: str, *command: str) -> None:
    """Guard this process and become `command`."""
    parent = os.getppid()
    with contextlib.suppress(PermissionError):  # It already leads its group.
        os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # The parent died before the kernel was asked.
            sys.exit(1)
    draft = f"{pid_file}.draft"
    try:
        with open(draft, "w") as file:  # noqa: PTH123 (pathlib would double the start-up time)
            file.write(str(os.getpid()))
        os.link(draft, pid_file)  # Atomic, and never overwrites a file.
    except OSError:
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
