"""CPU time and memory of this process with all that it started, dead or alive."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessTree:
    """Reads Linux's /proc.

    CPU time is counted for processes that are alive at `sample`, with their reaped children, so a
    process that starts and ends between two samples unreaped by us is missed.
    """

    def cpu_seconds(self) -> float:
        """Returns user and system time so far, in seconds."""
        return sum(self.cpu_seconds_of(pid, reaped=True) for pid in self.pids())

    def cpu_seconds_of(self, pid: int, *, reaped: bool = False) -> float:
        """Returns user and system time of one process so far; 0 if it is gone."""
        fields = self._stat(pid)
        used = (11, 12, 13, 14) if reaped else (11, 12)
        return sum(int(fields[i]) for i in used) / _TICKS if fields else 0.0

    def private_bytes(self) -> int:
        """Returns the memory that is shared with no other process, in bytes.

        A renderer shares 7 MiB with the process that it was forked from, which counts as its own in
        `/proc/PID/statm`, and so in `ps` and `top`.
        """
        total = 0
        for pid in self.pids():
            try:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
        return total * 1024

    def count(self) -> int:
        """Returns the number of processes."""
        return len(self.pids())

    def pids(self) -> list[int]:
        """Returns the processes: this one first."""
        children: dict[int, list[int]] = {}
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                fields = self._stat(int(entry.name))
                if fields and fields[0] != "Z":
                    children.setdefault(int(fields[1]), []).append(int(entry.name))
        found, waiting = [], [os.getpid()]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            waiting += children.get(pid, [])
        return found

    @staticmethod
    def _stat(pid: int) -> list[str] | None:
        """Returns the fields after the command's name: state, parent, ...; None if it is gone."""
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
