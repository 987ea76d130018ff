"""Ranks: several processes that each play a share of one iteration, without communicating.

All make the same plan from the same configuration. The first one writes it for the others
(`Iterations.share_plan`), in case their files or blocklists differ. Each then takes its share of
tasks by weight, with every attempt at them, so that a group of attempts is never split.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from webtraj import errors
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.spec import RankConfig, RunSpec

__all__ = ["check_no_ranks", "rows_of", "scale", "suffix_of"]


def check_no_ranks(spec: RunSpec) -> None:
    """Reject a rank on a Ray cluster, where each would play its share on the same machines.

    Raises:
        InvalidInputError: The settings have a rank.
    """
    if spec.iteration is not None and spec.iteration.rank is not None:
        raise errors.InvalidInputError(
            "Ranks (env_config.multinode_rank) are for several processes without a cluster. On a "
            "Ray cluster one process plays the whole plan on all machines: remove multinode_rank "
            "and the weights."
        )


def suffix_of(rank: RankConfig | None) -> str:
    """Return the suffix of the process's run ids."""
    return "" if rank is None else rank.suffix or f"_rank_{rank.number}"


def scale(spec: RunSpec, rank: RankConfig) -> RunSpec:
    """Return the settings with this process's share of each limit, at least 1."""
    share = rank.weights[rank.number] / sum(rank.weights)

    def part(size: int) -> int:
        return max(1, int(size * rank.weights[rank.number] / sum(rank.weights)))

    options = dict(spec.agent_options)
    if "max_concurrency" in options:
        options["max_concurrency"] = part(options["max_concurrency"])
    rate = spec.requests_per_minute
    return spec.model_copy(
        update={
            "agent_options": options,
            "operation_limits": {name: part(n) for name, n in spec.operation_limits.items() if n},
            "parallel": part(spec.parallel) if isinstance(spec.parallel, int) else spec.parallel,
            "requests_per_minute": None if rate is None else share * rate,
        }
    )


def rows_of(rank: RankConfig, plan: Sequence[PlannedEpisode]) -> tuple[PlannedEpisode, ...]:
    """Return this process's share of a plan, renumbered. Episodes keep their seeds and attempts."""
    owners: dict[str, int] = {}
    given = [0.0] * len(rank.weights)
    for planned in plan:
        if planned.task not in owners:
            # The rank with the least for its weight, so any start of the plan is fair too; of
            # equals, the one with less, so that none is left without.
            owner = min(
                range(len(given)), key=lambda i: ((given[i] + 1) / rank.weights[i], given[i], i)
            )
            given[owner] += 1
            owners[planned.task] = owner
    mine = (planned for planned in plan if owners[planned.task] == rank.number)
    return tuple(dataclasses.replace(planned, row=row) for row, planned in enumerate(mine))
