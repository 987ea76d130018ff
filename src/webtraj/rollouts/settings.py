"""How a rollout is run: limits, patience and order. What it plays is the plan's business."""

from __future__ import annotations

import dataclasses
from typing import Any

from webtraj import errors
from webtraj.environments.browser.operations import OperationLimits
from webtraj.rollouts.adapting import Adaptive
from webtraj.rollouts.deadlines import Deadlines
from webtraj.rollouts.scheduling import Order, Politeness, RetryPolicy

__all__ = ["Completion", "RolloutSettings"]

_MAX_CONSECUTIVE_ERRORS = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """When a rollout is done although some episodes are not.

    What is open then is recorded as cancelled, with all its steps, and is played again when the
    rollout is resumed.
    """

    threshold: float = 1.0
    """The share of the plan's rows that must be over; 1 waits for all."""
    grace: float = 30.0
    """Seconds that the others get from then on."""

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1 or self.grace < 0:
            raise errors.InvalidInputError(
                "Completion takes a threshold above 0 and up to 1, and a grace of 0 s or more; got "
                f"{self.threshold} and {self.grace}."
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSettings:
    """The settings of a rollout."""

    parallel: Any = 1
    """How many episodes are played at a time: a number; `Adaptive(2, 32)`, to find out as it goes;
    or `"auto"`, for `Adaptive()`. Once given, it is the number, or the largest that may be."""
    adaptive: Adaptive | None = None
    """How to find out; follows from `parallel`, and is not to be given."""
    max_steps: int | None = None
    """Truncates an episode after so many steps; a task's own limit goes before it."""
    max_repetitive_actions: int | None = None
    """Truncates an episode whose agent takes the same action more often than this in a row."""
    deadlines: Deadlines = dataclasses.field(default_factory=Deadlines)
    """How long things may take."""
    retry: RetryPolicy = dataclasses.field(default_factory=RetryPolicy)
    """What is tried again."""
    completion: Completion = dataclasses.field(default_factory=Completion)
    """When to stop waiting for the slowest."""
    order: Order = "given"
    """Who goes first."""
    politeness: Politeness = dataclasses.field(default_factory=Politeness)
    """What sites ask for."""
    operations: OperationLimits | None = None
    """How many of each browser operation go on at once, over all episodes; None leaves that to the
    browser pool."""
    max_consecutive_errors: int | None = None
    """Gives up after so many infrastructure failures in a row; the agent's own errors do not count.
    By default 10, or twice `parallel` if that is more: a browser that dies takes every episode in
    it along, and is replaced."""

    def __post_init__(self) -> None:
        self._settle_parallel()
        for name in (
            "parallel", "max_steps", "max_repetitive_actions", "max_consecutive_errors",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < 1:
                raise errors.InvalidInputError(f"{name} must be 1 or more; got {value}.")

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
            # A copy of adaptive settings, but with a number.
            object.__setattr__(self, "adaptive", None)

    @property
    def patience(self) -> int:
        """How many errors in a row end the rollout."""
        most_at_once: int = self.parallel
        return self.max_consecutive_errors or max(_MAX_CONSECUTIVE_ERRORS, 2 * most_at_once)
