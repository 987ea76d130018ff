"""Looking on while a rollout runs: progress bars, live pages, counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from webtraj.rollouts.plan import PlannedEpisode
from webtraj.rollouts.results import EpisodeResult

__all__ = ["NullRolloutObserver", "RolloutObserver", "TeeRolloutObserver"]


class RolloutObserver(Protocol):
    """Is told what happens in a rollout, in the event loop: it must neither wait nor raise."""

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """The rollout is about to begin."""

    def episode_ended(self, result: EpisodeResult) -> None:
        """An episode ended, however it did. Called once for each episode that was begun."""


class NullRolloutObserver:
    """Looks away."""

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Does nothing."""

    def episode_ended(self, result: EpisodeResult) -> None:
        """Does nothing."""


class TeeRolloutObserver:
    """Tells several observers, in order."""

    def __init__(self, *observers: RolloutObserver) -> None:
        self._observers = observers

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Tells each of them."""
        for observer in self._observers:
            observer.rollout_planned(plan)

    def episode_ended(self, result: EpisodeResult) -> None:
        """Tells each of them."""
        for observer in self._observers:
            observer.episode_ended(result)
