"""Who proposes tasks for what a crawl has seen: from its keys to a proposer yet to be made."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.rollouts.configuration.crawl import CrawlConfig
from webtraj.rollouts.tasks.spec import TaskSpec

if TYPE_CHECKING:
    from webtraj.exploring.base import Proposer
    from webtraj.exploring.proposing import Proposed

__all__ = ["Proposing", "proposing_of"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proposing:
    """A proposer that is yet to be made, and how it is asked."""

    name: str
    """One of `webtraj.exploring.catalog.PROPOSERS`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """What it is to know."""
    proposals: int = 3
    """How many tasks an episode may give."""
    parallel: int = 1
    """How many episodes are asked for at once."""

    def make(self) -> Proposer:
        """Returns the proposer. Who makes one that has connections closes it, by its `aclose`.

        Raises:
            InvalidInputError: It does not take such options.
        """
        from webtraj.exploring.catalog import make_proposer

        return make_proposer(self.name, options=self.options)

    def channels(self, channels: Sequence[str]) -> list[str]:
        """Returns what is to be observed: what the explorer needs, and what proposers read."""
        from webtraj.exploring.seen import CHANNELS

        return list(dict.fromkeys((*channels, *CHANNELS, "timings", "info")))

    def check(self, tasks: Iterable[TaskSpec]) -> None:
        """Checks that tasks can be explored.

        Raises:
            InvalidInputError: One is no coarse task.
        """
        from webtraj.exploring.crawling import require_coarse

        require_coarse(tasks)

    async def check_options(self) -> None:
        """Makes the proposer and closes it, so that what is wrong shows before anything is played.

        Raises:
            InvalidInputError: It cannot be made.
        """
        await _close(self.make())

    async def propose(
        self, out: str, run_id: str, *, storage_options: Mapping[str, Any] | None
    ) -> Proposed:
        """Proposes for the episodes of a run that have no proposals yet.

        Raises:
            Exception: What `webtraj.exploring.propose` raises.
        """
        from webtraj.exploring.proposing import propose

        proposer = self.make()
        try:
            return await propose(
                out,
                proposer,
                run=run_id,
                proposals=self.proposals,
                parallel=self.parallel,
                storage_options=storage_options,
            )
        finally:
            await _close(proposer)


def proposing_of(config: CrawlConfig) -> Proposing | None:
    """Returns who proposes; None if nobody does.

    Raises:
        InvalidInputError: A key is given that would do nothing.
    """
    if config.proposer is None:
        if config.proposer_options:
            raise errors.InvalidInputError(
                "proposer_options are given, and no proposer: give proposer=model."
            )
        return None
    options: dict[str, Any] = {}
    if config.proposer == "model":
        asked = {
            "model": config.model,
            "provider": config.agent_model_provider,
            "base_url": config.agent_model_url,
            "api_key_variable": config.agent_model_api_key_env_var,
            "requests_per_minute": config.request_per_minute,
        }
        options = {name: value for name, value in asked.items() if value is not None}
    return Proposing(
        name=config.proposer,
        options={**options, **config.proposer_options},
        proposals=config.proposals_per_trajectory,
        parallel=config.data_per_batch,
    )


async def _close(proposer: Proposer) -> None:
    if (close := getattr(proposer, "aclose", None)) is not None:
        await close()
