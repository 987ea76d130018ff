"""What a rollout holds of the machine, at one moment."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import gc
import os
import tempfile
import threading
from pathlib import Path

import psutil
from chaos import kind_of


@dataclasses.dataclass(frozen=True, slots=True)
class Census:
    """Processes and their memory by kind, and what leaks in this process show in."""

    processes: dict[str, int]
    private_mib: dict[str, float]
    zombies: int
    files: int
    threads: int
    tasks: int
    disk_mib: float

    @classmethod
    def take(cls) -> Census:
        """Counts this process and all under it."""
        gc.collect()
        counts: collections.Counter[str] = collections.Counter()
        memory: collections.Counter[str] = collections.Counter()
        zombies = 0
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.status() == psutil.STATUS_ZOMBIE:
                    zombies += 1
                    continue
                kind = kind_of(process)
                counts[kind] += 1
                memory[kind] += _private(process)
        ours = psutil.Process()
        return cls(
            processes=dict(counts),
            private_mib={
                kind: size / 2**20
                for kind, size in {
                    "rollout": _private(ours),
                    "driver": memory["driver"],
                    "browsers": memory["browser"] + memory["renderer"] + memory["helper"],
                }.items()
            },
            zombies=zombies,
            files=ours.num_fds(),
            threads=threading.active_count(),
            tasks=len(asyncio.all_tasks()),
            disk_mib=sum(map(folder_size, _run_folders())) / 2**20,
        )

    @property
    def total(self) -> int:
        """How many processes there are under this one."""
        return sum(self.processes.values())


def _private(process: psutil.Process) -> int:
    memory = process.memory_info()
    return memory.rss - memory.shared


def _run_folders() -> list[Path]:
    """Returns the temporary folders of this process's pools."""
    return list(Path(tempfile.gettempdir()).glob(f"webtraj-run-{os.getpid()}-*"))


def folder_size(folder: Path) -> int:
    """Returns the bytes in a folder; what vanishes meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total
