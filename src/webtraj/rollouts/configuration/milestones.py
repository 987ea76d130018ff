"""Milestones: a line each time that so many percent more of a rollout are on record."""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable, Sequence

from webtraj.rollouts.observer import NullRolloutObserver, RolloutObserver
from webtraj.rollouts.plan import PlannedEpisode
from webtraj.rollouts.results import EpisodeResult

__all__ = ["Milestones"]

_logger = logging.getLogger(__name__)


class Milestones:
    """Tells how far a rollout is, and hands on what it is told to another observer.

    A row that is tried several times counts once: when its first try has ended.
    """

    def __init__(
        self,
        percent: float,
        observer: RolloutObserver | None = None,
        *,
        tell: Callable[[str], None] = _logger.info,
    ) -> None:
        self._percent = percent
        self._observer = observer or NullRolloutObserver()
        self._tell = tell
        self._rows = 0
        self._begun: set[int] = set()
        self._told = 0
        self._outcomes: collections.Counter[str] = collections.Counter()

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Begins to count."""
        self._rows = len(plan)
        self._observer.rollout_planned(plan)

    def episode_ended(self, result: EpisodeResult) -> None:
        """Counts, and tells if there is something to tell."""
        self._observer.episode_ended(result)
        self._outcomes[result.outcome.name.lower()] += 1
        self._begun.add(result.row)
        # Whole steps of so many percent that have been taken, without the errors of floats.
        steps = int(len(self._begun) * 100 / self._rows / self._percent + 1e-9)
        if steps > self._told:
            self._told = steps
            counts = ", ".join(f"{name} {count}" for name, count in self._outcomes.most_common())
            self._tell(
                f"{len(self._begun) / self._rows:.0%} of what was left to play is on record: "
                f"{len(self._begun)} of {self._rows} episodes ({counts})."
            )
