"""How many episodes a machine plays at a time, from its processors and memory."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from pathlib import Path

from webtraj import errors

__all__ = ["LOAD_WEIGHT", "NodeSizing", "episodes_here"]

LOAD_WEIGHT = "rank_load_weight"
"""The custom Ray resource that sets a machine's weight:
`ray start --resources '{"rank_load_weight": 0.5}'`."""

_MIB = 1 << 20
_CGROUP = Path("/sys/fs/cgroup")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeSizing:
    """Resources that an episode takes on a machine."""

    cpus_per_episode: float = 0.25
    """Processors for each episode."""
    memory_per_episode: int = 256 * _MIB
    """Bytes for each episode, mostly for a browser context."""
    load_weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Weights by machine address. The default is a machine's own resource (`LOAD_WEIGHT`), or 1.
    A weight multiplies what processors and memory allow; 0 excludes the machine."""

    def __post_init__(self) -> None:
        if not self.cpus_per_episode > 0 or self.memory_per_episode < 1:
            raise errors.InvalidInputError(
                "cpus_per_episode must be more than 0, and memory_per_episode 1 byte or more; got "
                f"{self.cpus_per_episode} and {self.memory_per_episode}."
            )
        for address, weight in self.load_weights.items():
            if not weight >= 0:
                raise errors.InvalidInputError(
                    f"The load weight of {address!r} must be 0 or more; got {weight}."
                )

    def episodes(self, resources: Mapping[str, float], address: str = "") -> int:
        """Return how many episodes a machine plays at a time.

        >>> NodeSizing().episodes({"CPU": 8, "memory": 64 << 30})
        32
        >>> NodeSizing().episodes({"CPU": 8, "memory": 2 << 30, "rank_load_weight": 0.5})
        4
        >>> NodeSizing(load_weights={"10.0.0.7": 0}).episodes({"CPU": 8}, "10.0.0.7")
        0

        Args:
            resources: The machine's resources, by Ray's names; memory in bytes.
            address: The machine's address.
        """
        weight = self.load_weights.get(address, resources.get(LOAD_WEIGHT, 1.0))
        size = resources.get("CPU", 0.0) / self.cpus_per_episode
        if "memory" in resources:
            size = min(size, resources["memory"] / self.memory_per_episode)
        if weight == 0 or size == 0:
            return 0
        return max(int(size * weight), 1)

    def reserve(self, resources: Mapping[str, float], episodes: int) -> dict[str, float]:
        """Return the resources to reserve for some episodes, limited to what the machine has."""
        wanted = {
            "CPU": episodes * self.cpus_per_episode,
            "memory": float(episodes * self.memory_per_episode),
        }
        return {name: min(wanted[name], resources[name]) for name in wanted if name in resources}


def episodes_here() -> int:
    """Return how many episodes this machine or container plays at a time with `parallel` auto."""
    affinity = getattr(os, "sched_getaffinity", None)  # Not on macOS.
    cpus = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return NodeSizing().episodes(
        {"CPU": min(cpus, _limit("cpu.max")), "memory": min(memory, _limit("memory.max"))}
    )


def _limit(name: str) -> float:
    """Return a limit of this process's container (cgroup v2); infinite without one."""
    try:
        amount, *period = (_CGROUP / name).read_text().split()
        return float(amount) / float(period[0] if period else 1)
    except (OSError, ValueError):  # No container, or "max".
        return math.inf
