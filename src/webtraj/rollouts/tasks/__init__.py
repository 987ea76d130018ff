"""Tasks of a rollout: what one is (`spec`), its rows in files (`rows`), and reading them."""

from webtraj.rollouts.tasks.reading import read_tasks
from webtraj.rollouts.tasks.spec import Fact, FactGroup, TaskSpec

__all__ = ["Fact", "FactGroup", "TaskSpec", "read_tasks"]
