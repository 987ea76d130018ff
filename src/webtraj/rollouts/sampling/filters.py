"""What keeps a task out of a sample. Filters read and yield streams."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator

from webtraj.rollouts.sampling.blocklist import Blocklist
from webtraj.rollouts.tasks.spec import TaskSpec

__all__ = ["distinct", "unblocked", "unseen"]


def distinct(tasks: Iterable[TaskSpec]) -> Iterator[TaskSpec]:
    """Yields each task once: the same goal at the same place and difficulty is the same task.

    What is compared follows WebGym: subdomain, site, difficulty and goal.
    """
    seen: set[bytes] = set()
    for task in tasks:
        # A digest, since a set of 300,000 goals would take a hundred times the memory.
        says = (
            task.preset,
            task.subdomain,
            task.start_url,
            task.difficulty,
            task.goal or task.name,
        )
        key = hashlib.blake2b(repr(says).encode(), digest_size=12).digest()
        if key not in seen:
            seen.add(key)
            yield task


def unseen(tasks: Iterable[TaskSpec], names: Collection[str]) -> Iterator[TaskSpec]:
    """Yields the tasks whose names are not among those, such as of earlier iterations."""
    return (task for task in tasks if task.name not in names)


def unblocked(tasks: Iterable[TaskSpec], blocklist: Blocklist) -> Iterator[TaskSpec]:
    """Yields the tasks whose sites are not blocked. For training only: a test plays all."""
    blocked = blocklist.sites()
    return (task for task in tasks if not task.site or task.site not in blocked)
