"""Rollouts: run an agent on many episodes at once and account for every one.

* `samplers`: which tasks a rollout plays.
* `collection`: a rollout in one call, by a `RunSpec`. `rollout`: a rollout ready to be played.
* `configuration`: reads configurations, and builds rollouts.
* `recipes`: makes the agent, judge and proposer of a rollout. `forks`: forks recorded episodes.
* `runner`: plays the plan, several episodes at a time, with `scheduler` and `deadlines`.
* `node_size`: how many episodes a machine plays at a time.
* `episode`: plays one episode and returns how it ended.
* `results`: the summary of a rollout, and observers.

Its plan and the other files from which it can be resumed are in `webtraj.runs`.
"""

from webtraj.environments.tasks import TaskSpec, read_tasks
from webtraj.rollouts.collection import collect
from webtraj.rollouts.results import RolloutObserver, RolloutSummary, TaskSummary
from webtraj.runs.plan import PlannedEpisode, plan_episodes, plan_tasks
from webtraj.runs.run import EpisodeResult
from webtraj.runs.spec import RunSpec

__all__ = [
    "EpisodeResult",
    "PlannedEpisode",
    "RolloutObserver",
    "RolloutSummary",
    "RunSpec",
    "TaskSpec",
    "TaskSummary",
    "collect",
    "plan_episodes",
    "plan_tasks",
    "read_tasks",
]
