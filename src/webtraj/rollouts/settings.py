"""How a rollout is run: limits, patience and order. What it plays is the plan's business."""

from __future__ import annotations

import dataclasses

from webtraj import errors
from webtraj.rollouts.deadlines import Deadlines
from webtraj.rollouts.retrying import RetryPolicy
from webtraj.rollouts.scheduling import Order, Politeness

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

    parallel: int = 1
    """How many episodes are played at a time."""
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
    max_consecutive_errors: int | None = None
    """Gives up after so many episodes in a row that an error ended. By default 10, or twice
    `parallel` if that is more: a browser that dies takes every episode in it along, and is
    replaced."""

    def __post_init__(self) -> None:
        for name in (
            "parallel", "max_steps", "max_repetitive_actions", "max_consecutive_errors",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < 1:
                raise errors.InvalidInputError(f"{name} must be 1 or more; got {value}.")

    @property
    def patience(self) -> int:
        """How many errors in a row end the rollout."""
        return self.max_consecutive_errors or max(_MAX_CONSECUTIVE_ERRORS, 2 * self.parallel)
