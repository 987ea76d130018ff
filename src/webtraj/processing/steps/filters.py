"""`filter`, `filter-outcome`, `filter-site`, `filter-task`: keep selected episodes.

Use them for what is known only inside a pipeline, such as a judge's verdict. To filter by what the
index has, `where` is cheaper, because it never reads episodes that do not match.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.dataset import parse_condition
from webtraj.processing.base import Drop
from webtraj.processing.steps import options
from webtraj.store.index import EpisodeSummary, version_span
from webtraj.trajectory import Outcome

__all__ = ["Filter", "FilterOutcome", "FilterSite", "FilterTask"]

_Kept = trajectory_lib.EpisodeTrajectory | Drop
_INFO = (
    "task", "goal", "site", "environment", "policy", "seed", "group_id", "attempt", "retry_of",
)  # fmt: skip
_OUTCOMES = tuple(outcome.name.lower() for outcome in Outcome)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Filter(options.PlainStep):
    """Keeps the episodes that meet a condition (see `webtraj.datasets.dataset`).

    A condition uses the fields of a dataset's index; fields of the file (`format`, `size`,
    `sha256`) have their defaults here.

    >>> Filter(where="outcome == 'success' and num_steps <= 10").settings
    {'where': "outcome == 'success' and num_steps <= 10"}
    """

    name: str = dataclasses.field(default="filter", init=False)
    version: str = dataclasses.field(default="1", init=False)
    where: str
    """The condition."""
    _met: Callable[[EpisodeSummary], bool] = dataclasses.field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not isinstance(self.where, str):
            raise errors.InvalidInputError(
                f"{self.name}: where is {self.where!r:.200}; expected a condition, as text."
            )
        options.put(self, _met=parse_condition(self.where))

    def __call__(self, trajectory: trajectory_lib.EpisodeTrajectory) -> _Kept:
        """Return the episode if it meets the condition."""
        return trajectory if self._met(_summary(trajectory)) else Drop("condition not met")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilterOutcome(options.PlainStep):
    """Keeps episodes by outcome.

    >>> FilterOutcome(outcomes="success").settings
    {'outcomes': ['success']}
    """

    name: str = dataclasses.field(default="filter-outcome", init=False)
    version: str = dataclasses.field(default="1", init=False)
    outcomes: tuple[str, ...] = ("success",)
    """The outcomes to keep, in lower case."""

    def __post_init__(self) -> None:
        options.read_words(self, "outcomes")
        for outcome in self.outcomes:
            options.choice(self.name, "outcomes", outcome, _OUTCOMES)

    def __call__(self, trajectory: trajectory_lib.EpisodeTrajectory) -> _Kept:
        """Return the episode if its outcome is one of them."""
        outcome = trajectory.outcome.name.lower()
        return trajectory if outcome in self.outcomes else Drop(f"outcome {outcome}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilterSite(options.PlainStep):
    """Keeps episodes by their site: glob patterns such as `*.example.org`."""

    name: str = dataclasses.field(default="filter-site", init=False)
    version: str = dataclasses.field(default="1", init=False)
    sites: tuple[str, ...] = ("*",)
    """Patterns of sites to keep."""
    exclude: tuple[str, ...] = ()
    """Patterns of sites to drop, overriding `sites`."""

    def __post_init__(self) -> None:
        options.read_words(self, "sites", "exclude")

    def __call__(self, trajectory: trajectory_lib.EpisodeTrajectory) -> _Kept:
        """Return the episode if its site is kept."""
        site = trajectory.info.site
        return trajectory if _is_wanted(site, self.sites, self.exclude) else Drop("site", site)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilterTask(options.PlainStep):
    """Keeps episodes by their task: glob patterns such as `miniwob/click-*`."""

    name: str = dataclasses.field(default="filter-task", init=False)
    version: str = dataclasses.field(default="1", init=False)
    tasks: tuple[str, ...] = ("*",)
    """Patterns of tasks to keep."""
    exclude: tuple[str, ...] = ()
    """Patterns of tasks to drop, overriding `tasks`."""

    def __post_init__(self) -> None:
        options.read_words(self, "tasks", "exclude")

    def __call__(self, trajectory: trajectory_lib.EpisodeTrajectory) -> _Kept:
        """Return the episode if its task is kept."""
        task = trajectory.info.task
        return trajectory if _is_wanted(task, self.tasks, self.exclude) else Drop("task", task)


def _is_wanted(text: str, patterns: tuple[str, ...], exclude: tuple[str, ...]) -> bool:
    return options.matches(text, patterns) and not options.matches(text, exclude)


def _summary(trajectory: trajectory_lib.EpisodeTrajectory) -> EpisodeSummary:
    info = {name: getattr(trajectory.info, name) for name in _INFO}
    return EpisodeSummary(
        episode_id=trajectory.episode_id,
        **info,
        policy_version=version_span(_versions(trajectory)),
        end_reason=trajectory.end_reason,
        outcome=trajectory.outcome,
        num_steps=trajectory.num_steps,
        total_reward=trajectory.total_reward,
        start_time=trajectory.start_time,
        end_time=trajectory.end_time,
    )


def _versions(trajectory: trajectory_lib.EpisodeTrajectory) -> Iterator[str]:
    decisions = [step.decision for step in trajectory.steps]
    decisions += [trajectory.end.in_flight_decision] if trajectory.end else []
    for decision in decisions:
        for call in decision.model_calls if decision else ():
            if not call.error:
                yield call.policy_version
