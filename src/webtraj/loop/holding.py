"""Runs a command that holds a lock: `holding.py LOCK PROGRAM ARGUMENT...`.

Run as a script by file name, with the standard library only. The lock (flock) of the file is taken
and left open for the program, which takes this process's place. So it is held for as long as the
program runs, whatever becomes of who started it: who wants to go on with its work waits for that.
"""

import fcntl
import os
import sys

_NOT_RUN = 127


def main(lock: str, *command: str) -> None:
    """Takes the lock, and becomes the command."""
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.set_inheritable(descriptor, True)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]!r} cannot be run: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(_NOT_RUN)


if __name__ == "__main__":
    main(*sys.argv[1:])
