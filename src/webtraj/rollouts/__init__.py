"""Rollouts: an agent plays many episodes at once, and every one of them is accounted for.

* `plan`: which episodes there are to play, with their seeds.
* `episode`: playing one, to a result that says how it ended.
* `runner`: playing them all, a few at a time.
* `observer`: looking on meanwhile.
* `results`, `summary`: what came of it.
"""

from webtraj.rollouts.observer import RolloutObserver
from webtraj.rollouts.plan import PlannedEpisode, plan_episodes
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.runner import collect
from webtraj.rollouts.summary import RolloutSummary, TaskSummary

__all__ = [
    "EpisodeResult",
    "PlannedEpisode",
    "RolloutObserver",
    "RolloutSummary",
    "TaskSummary",
    "collect",
    "plan_episodes",
]
