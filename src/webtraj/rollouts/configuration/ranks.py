"""Ranks: several processes that play one plan, each its share, without speaking to each other.

All of them make the same plan from the same configuration, and the first to come writes it down for
the others (`Iterations.share_plan`), should their files or blocklists differ. Each then takes the
tasks that are its own: as many as its weight says, and every attempt at them, so that a group of
attempts is never torn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from webtraj import errors
from webtraj.rollouts.configuration.crawl import CrawlConfig
from webtraj.rollouts.configuration.rollout import EnvConfig, RolloutConfig
from webtraj.rollouts.plan import PlannedEpisode

__all__ = ["NOT_ON_RAY", "Rank", "rank_of", "refuse_ranks_on_ray"]

NOT_ON_RAY = (
    "env_config.multinode_rank is for several processes without a cluster. On a Ray cluster one "
    "process plays the whole plan, on all machines: give no multinode_rank there, and no weights."
)
"""Why a rank does not play on Ray: each would hand its share out to the same machines."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rank:
    """One of several processes."""

    number: int
    """Which one, from 0."""
    weights: tuple[float, ...]
    """The shares of all of them."""
    suffix: str
    """Ends the names of its runs."""

    @property
    def share(self) -> float:
        """Its part of the whole, from 0 to 1."""
        return self.weights[self.number] / sum(self.weights)

    def scaled(self, size: int) -> int:
        """Returns its share of something that all have together, 1 at least.

        >>> Rank(0, (2.0, 1.0), "_rank_0").scaled(64)
        42
        """
        return max(1, int(size * self.weights[self.number] / sum(self.weights)))

    def rows(self, plan: Sequence[PlannedEpisode]) -> tuple[PlannedEpisode, ...]:
        """Returns its share of a plan, numbered anew; episodes keep their seeds and attempts."""
        owners: dict[str, int] = {}
        given = [0.0] * len(self.weights)
        for planned in plan:
            if planned.task not in owners:
                # Whoever has the least for its weight; so any beginning of the plan is fair, too.
                owner = min(range(len(given)), key=lambda i: ((given[i] + 1) / self.weights[i], i))
                given[owner] += 1
                owners[planned.task] = owner
        mine = (planned for planned in plan if owners[planned.task] == self.number)
        return tuple(dataclasses.replace(planned, row=row) for row, planned in enumerate(mine))


def rank_of(config: EnvConfig) -> Rank | None:
    """Returns which process this is; None if it is the only one.

    Raises:
        InvalidInputError: What the configuration says of it does not fit together.
    """
    number, total = config.multinode_rank, config.multinode_total_workers
    weights = _weights(config)
    if number is None:
        if total in (None, 1) and weights is None and config.rank_load_weight is None:
            return None
        raise errors.InvalidInputError(
            "A share of a rollout needs env_config.multinode_rank, from 0, to say whose it is."
        )
    if weights is None:
        weights = _derived(config, number, total)
    if total not in (None, len(weights)) or number >= len(weights):
        raise errors.InvalidInputError(
            f"env_config.multinode_rank is {number} of "
            f"{len(weights) if total is None else total}, and there are {len(weights)} weights; "
            "expected a rank from 0, less than multinode_total_workers, and a weight for each."
        )
    for name, given, expected in (
        ("rank_load_weight", config.rank_load_weight, weights[number]),
        ("total_load_weight", config.total_load_weight, sum(weights)),
    ):
        if given is not None and abs(given - expected) > 1e-9 * expected:
            raise errors.InvalidInputError(
                f"env_config.{name} is {given:g}; by the weights of all ranks it is {expected:g}. "
                "Give the same env_config.all_rank_weights to all ranks."
            )
    return Rank(number, weights, config.multinode_rank_suffix or f"_rank_{number}")


def refuse_ranks_on_ray(config: RolloutConfig | CrawlConfig) -> None:
    """Refuses to play a rank's share on a Ray cluster.

    Raises:
        InvalidInputError: The configuration is one rank's.
    """
    if isinstance(config, RolloutConfig) and rank_of(config.env_config) is not None:
        raise errors.InvalidInputError(NOT_ON_RAY)


def _weights(config: EnvConfig) -> tuple[float, ...] | None:
    given = config.all_rank_weights
    if given is None:
        return None
    try:
        parts = given.split(",") if isinstance(given, str) else given
        weights = tuple(float(part) for part in parts)
    except ValueError:
        weights = ()
    if not weights or not all(0 < weight < float("inf") for weight in weights):
        raise errors.InvalidInputError(
            f"env_config.all_rank_weights is {given!r:.100}; expected numbers above 0, as [2, 1, 1]"
            " or '2,1,1'."
        )
    return weights


def _derived(config: EnvConfig, number: int, total: int | None) -> tuple[float, ...]:
    """Returns all weights, if what one rank is told of them leaves no choice."""
    own, every = config.rank_load_weight, config.total_load_weight
    if total is None:
        raise errors.InvalidInputError(
            f"env_config.multinode_rank is {number}; give env_config.multinode_total_workers, too, "
            "or env_config.all_rank_weights."
        )
    if own is None and every is None:
        return (1.0,) * total
    if own is not None and every is not None:
        if abs(own * total - every) <= 1e-9 * every:
            return (own,) * total
        if total == 2 and own < every:
            return (own, every - own) if number == 0 else (every - own, own)
    raise errors.InvalidInputError(
        f"env_config.rank_load_weight is {own} and total_load_weight is {every}: that does not say "
        f"which share each of the {total} ranks has. Give env_config.all_rank_weights, the weights "
        "of all ranks in order, such as [2, 1, 1], to every rank."
    )
