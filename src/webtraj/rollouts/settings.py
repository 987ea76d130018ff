"""Settings of a rollout: limits, patience and order. The plan says what to play."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

from webtraj import errors
from webtraj.environments.browser.lease import OperationLimits
from webtraj.rollouts.adapting import Adaptive
from webtraj.rollouts.deadlines import Deadlines
from webtraj.rollouts.scheduling import Politeness, RetryPolicy
from webtraj.runs.run import all_numbers
from webtraj.runs.spec import TaskOrder

__all__ = ["Completion", "RolloutSettings"]

_MAX_CONSECUTIVE_ERRORS = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """When a rollout stops waiting for the remaining episodes.

    Episodes still open then are recorded as cancelled, with all their steps, and are played again
    when the rollout is resumed.
    """

    threshold: float = 1.0
    """Share of the rows to play that must be done; 1 waits for all. On resume, rows that were done
    before do not count."""
    grace: float = 30.0
    """Seconds that the remaining episodes get from then on."""

    def __post_init__(self) -> None:
        if not all_numbers(self) or not 0 < self.threshold <= 1 or self.grace < 0:
            raise errors.InvalidInputError(
                "Completion takes a threshold above 0 and up to 1, and a grace of 0 s or more; got "
                f"{self.threshold!r} and {self.grace!r}."
            )

    def begins(self, over: int, rows: int) -> bool:
        """Return whether the grace period begins with row number `over` of those done.

        >>> [Completion(threshold=0.5).begins(over, 4) for over in (1, 2, 3, 4)]
        [False, True, False, False]
        """
        return over - 1 < self.threshold * rows <= over < rows


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSettings:
    """The settings of a rollout."""

    parallel: Any = 1
    """Episodes to play at a time: a number; `Adaptive(2, 32)` to adjust it as the rollout runs; or
    `"auto"` for `Adaptive()`. Afterwards it holds the number, or the largest number allowed."""
    adaptive: Adaptive | None = None
    """Bounds for adjusting the number. Derived from `parallel`; do not set."""
    max_steps: int | None = None
    """Truncate an episode after this many steps. A task's own limit takes precedence."""
    max_repetitive_actions: int | None = None
    """Truncate an episode when the agent repeats an action more often than this in a row."""
    deadlines: Deadlines = dataclasses.field(default_factory=Deadlines)
    """Time limits."""
    retry: RetryPolicy = dataclasses.field(default_factory=RetryPolicy)
    """Which episodes to retry, and how often."""
    completion: Completion = dataclasses.field(default_factory=Completion)
    """When to stop waiting for the slowest episodes."""
    order: TaskOrder = "given"
    """The order of the episodes."""
    politeness: Politeness = dataclasses.field(default_factory=Politeness)
    """Limits on visits to each site."""
    operations: OperationLimits | None = None
    """Limits on concurrent browser operations of each kind, over all episodes; None keeps those of
    the browser pool."""
    max_consecutive_errors: int | None = None
    """Stop after this many infrastructure failures in a row; the agent's own errors do not count.
    By default 10, or twice `parallel` if that is more, since a browser that crashes fails all of
    its episodes before it is replaced."""

    def __post_init__(self) -> None:
        self._settle_parallel()
        for name in (
            "parallel", "max_steps", "max_repetitive_actions", "max_consecutive_errors",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and value >= 1):
                raise errors.InvalidInputError(
                    f"{name} must be 1 or more, a whole number; got {value!r}."
                )
        if self.order not in get_args(TaskOrder):
            raise errors.InvalidInputError(
                f"order must be one of {', '.join(get_args(TaskOrder))}; got {self.order!r}."
            )
        for name, kind in _PARTS.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise errors.InvalidInputError(
                    f"{name} must be of the type {kind.__name__}; got {value!r:.100}."
                )

    def _settle_parallel(self) -> None:
        adaptive = Adaptive() if self.parallel == "auto" else self.parallel
        if isinstance(adaptive, Adaptive):
            object.__setattr__(self, "parallel", adaptive.high)
            object.__setattr__(self, "adaptive", adaptive)
        elif not isinstance(self.parallel, int):
            raise errors.InvalidInputError(
                f"parallel must be a number, an Adaptive or 'auto'; got {self.parallel!r}."
            )
        elif self.adaptive is not None and self.parallel != self.adaptive.high:
            # A copy of adaptive settings, with a number in place of the range.
            object.__setattr__(self, "adaptive", None)

    @property
    def patience(self) -> int:
        """Number of failures in a row that stops the rollout."""
        most_at_once: int = self.parallel
        return self.max_consecutive_errors or max(_MAX_CONSECUTIVE_ERRORS, 2 * most_at_once)


_PARTS = {
    "deadlines": Deadlines,
    "retry": RetryPolicy,
    "completion": Completion,
    "politeness": Politeness,
}
