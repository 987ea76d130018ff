"""When an episode that an error ended is tried again, as an attempt with a record of its own."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping

from webtraj import errors
from webtraj.trajectory import Outcome

__all__ = ["RETRIED", "RetryPolicy"]

RETRIED: Mapping[Outcome, bool] = {
    Outcome.ENV_ERROR: True,
    Outcome.TIMEOUT: True,
    Outcome.MODEL_ERROR: True,
    Outcome.AGENT_ERROR: False,
    Outcome.SUCCESS: False,
    Outcome.FAILURE: False,
    Outcome.BLOCKED: False,
    Outcome.JUDGE_ERROR: False,
    Outcome.UNKNOWN: False,
    Outcome.CANCELLED: False,
}
"""Whether another try may help, by outcome. An agent's error is the agent's failure and stays one;
a judge's error is mended by judging again; a resumed rollout plays cancelled episodes again."""

_HOPELESS = (errors.InvalidInputError, errors.ModelRefusedError, errors.MissingDependencyError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often an episode that an error ended is tried again, and how soon."""

    max_retries: int = 0
    """Tries after the first."""
    pause: float = 1.0
    """Seconds before the first retry, at most; twice as many before each one after it."""
    max_pause: float = 60.0
    """The longest pause, in seconds."""

    def __post_init__(self) -> None:
        if self.max_retries < 0 or self.pause < 0 or self.max_pause < 0:
            raise errors.InvalidInputError(f"{self} has a number below 0.")

    def retries(self, outcome: Outcome, tries: int, error: BaseException | None = None) -> bool:
        """Returns whether to try once more.

        Args:
            outcome: How the last try ended.
            tries: How many tries failed so far, the last one included.
            error: What ended the last one, where that is known.
        """
        if not RETRIED[outcome] or tries > self.max_retries:
            return False
        return not isinstance(error, _HOPELESS)

    def delay(self, tries: int, source: random.Random) -> float:
        """Returns the seconds to wait after so many tries.

        It is anything up to the pause, so that what failed together does not come again together.
        """
        longest: float = min(self.max_pause, self.pause * 2 ** (tries - 1))
        return source.uniform(0, longest)
