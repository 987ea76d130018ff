"""Run a command that holds a lock: `lock_holder.py LOCK PROGRAM ARGUMENT...`.

This script runs by file name and uses only the standard library. It takes the lock (flock) of the
file and leaves it open for the program, which replaces this process. So the lock is held as long as
the program runs, even if its parent dies, and a resumed loop waits for it.
"""

import fcntl
import os
import sys

_NOT_RUN = 127


def main(lock: str, *command: str) -> None:
    """Take the lock and become the command."""
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.set_inheritable(descriptor, True)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"Cannot run {command[0]!r}: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(_NOT_RUN)


if __name__ == "__main__":
    main(*sys.argv[1:])
