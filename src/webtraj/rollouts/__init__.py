"""Rollouts: an agent plays many episodes at once, and every one of them is accounted for.

* `tasks`, `sampling`: what there is to play, and which of it is played.
* `plan`: which episodes that makes, with their seeds.
* `collecting`: a rollout in one call; `settings`: how it is run.
* `runner`: playing the plan, a few at a time, with `scheduling`, `deadlines` and `retrying`.
* `adapting`: how many at a time the machine can bear.
* `episode`: playing one, to a result that says how it ended.
* `runs`: a rollout on record, to be gone on with after any death.
* `observer`: looking on meanwhile.
* `results`, `summary`: what came of it.
"""

from webtraj.rollouts.adapting import Adaptive
from webtraj.rollouts.collecting import collect
from webtraj.rollouts.deadlines import Deadlines
from webtraj.rollouts.plan import PlannedEpisode, plan_episodes, plan_tasks
from webtraj.rollouts.results import EpisodeResult, RolloutObserver, RolloutSummary, TaskSummary
from webtraj.rollouts.scheduling import Politeness, RetryPolicy
from webtraj.rollouts.settings import Completion, RolloutSettings
from webtraj.tasks import TaskSpec, read_tasks

__all__ = [
    "Adaptive",
    "Completion",
    "Deadlines",
    "EpisodeResult",
    "PlannedEpisode",
    "Politeness",
    "RetryPolicy",
    "RolloutObserver",
    "RolloutSettings",
    "RolloutSummary",
    "TaskSpec",
    "TaskSummary",
    "collect",
    "plan_episodes",
    "plan_tasks",
    "read_tasks",
]
