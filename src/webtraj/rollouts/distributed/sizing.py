"""How many episodes a machine plays at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from webtraj import errors

__all__ = ["LOAD_WEIGHT", "NodeSizing"]

LOAD_WEIGHT = "rank_load_weight"
"""The custom resource of Ray by which a machine says its weight:
`ray start --resources '{"rank_load_weight": 0.5}'`."""

_MIB = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeSizing:
    """What an episode takes of a machine."""

    cpus_per_episode: float = 0.25
    """Processors for one episode."""
    memory_per_episode: int = 256 * _MIB
    """Bytes for one episode: a browser context's, mostly."""
    load_weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Weights by a machine's address; for others, what they say themselves (`LOAD_WEIGHT`), or
    1. A weight multiplies what the machine's processors and memory allow; 0 leaves it out."""

    def __post_init__(self) -> None:
        if not self.cpus_per_episode > 0 or self.memory_per_episode < 1:
            raise errors.InvalidInputError(
                "An episode takes more than 0 processors and 1 byte of memory or more; got "
                f"{self.cpus_per_episode} and {self.memory_per_episode}."
            )
        for address, weight in self.load_weights.items():
            if not weight >= 0:
                raise errors.InvalidInputError(
                    f"The load weight of {address!r} must be 0 or more; got {weight}."
                )

    def episodes(self, resources: Mapping[str, float], address: str = "") -> int:
        """Returns how many episodes a machine plays at once.

        >>> NodeSizing().episodes({"CPU": 8, "memory": 64 << 30})
        32
        >>> NodeSizing().episodes({"CPU": 8, "memory": 2 << 30, "rank_load_weight": 0.5})
        4
        >>> NodeSizing(load_weights={"10.0.0.7": 0}).episodes({"CPU": 8}, "10.0.0.7")
        0

        Args:
            resources: The machine's, by Ray's names; memory in bytes.
            address: Its address.
        """
        weight = self.load_weights.get(address, resources.get(LOAD_WEIGHT, 1.0))
        size = resources.get("CPU", 0.0) / self.cpus_per_episode
        if "memory" in resources:
            size = min(size, resources["memory"] / self.memory_per_episode)
        if weight == 0 or size == 0:
            return 0
        return max(int(size * weight), 1)

    def reserved(self, resources: Mapping[str, float], episodes: int) -> dict[str, float]:
        """Returns what to reserve of a machine for so many episodes: never more than it has."""
        wanted = {
            "CPU": episodes * self.cpus_per_episode,
            "memory": float(episodes * self.memory_per_episode),
        }
        return {name: min(wanted[name], resources[name]) for name in wanted if name in resources}
