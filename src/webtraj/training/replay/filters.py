"""What keeps episodes and steps out of a replay buffer, and the reasons that are counted for it."""

from __future__ import annotations

import dataclasses
import enum
import fnmatch
import math
from collections.abc import Iterable
from typing import Any

from webtraj import errors

__all__ = ["EPISODE_REASONS", "Filters", "Reason", "matches"]


class Reason(enum.StrEnum):
    """Why something gives no samples. Reports count each, by task."""

    WHERE = "not asked for"
    """An episode that does not meet the condition `Filters.where`."""
    UNREADABLE = "unreadable"
    """An episode whose file, or a blob of it, is missing or damaged."""
    UNFINISHED = "unfinished"
    """An episode that did not end by itself."""
    INFRASTRUCTURE = "infrastructure"
    """An episode that infrastructure or site has cut short, or that its judge could not judge."""
    EMPTY = "empty"
    """An episode without actions."""
    TOO_SHORT = "too short"
    """An episode with fewer actions than `Filters.min_steps`."""
    NOT_JUDGED = "not judged"
    """An episode of unknown outcome that no judge looked at, where only successes are wanted."""
    UNDECIDED = "outcome unknown"
    """An episode that was judged and whose outcome is still unknown, likewise."""
    NOT_SUCCESSFUL = "not successful"
    """An episode that failed, where only successes are wanted."""
    HOLE = "None in observation, action or response"
    """An episode with a hole in it."""
    HELD_OUT = "held out"
    """An episode of a task or site that is kept for evaluation."""
    TOO_EASY_OR_HARD = "outside the success band"
    """An episode of a task that succeeds too often or too rarely to be learned from."""
    NO_MODEL_CALL = "no model call"
    """A decision that no model was asked for, where nothing renders it."""
    NO_REPLY = "no reply text"
    """A decision whose model calls have all failed, or replied without text."""
    UNREADABLE_PROMPT = "unreadable prompt"
    """A decision whose prompt is of no shape that is known."""
    INVALID_ACTION = "invalid action"
    """A decision that was no action."""
    NO_EFFECT = "no effect"
    """A step after which the page was as before."""
    DUPLICATE = "duplicate"
    """A decision with the same prompt and completion as a later one."""
    TASK_CAP = "over the cap of its task"
    SITE_CAP = "over the cap of its site"


EPISODE_REASONS = frozenset(
    {
        Reason.WHERE,
        Reason.UNREADABLE,
        Reason.UNFINISHED,
        Reason.INFRASTRUCTURE,
        Reason.EMPTY,
        Reason.TOO_SHORT,
        Reason.NOT_JUDGED,
        Reason.UNDECIDED,
        Reason.NOT_SUCCESSFUL,
        Reason.HOLE,
        Reason.HELD_OUT,
        Reason.TOO_EASY_OR_HARD,
    }
)
"""The reasons for which whole episodes go; the others are for single steps."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What is let into a replay buffer. Episodes that no one can learn from never are."""

    filter_successful_only: bool = True
    """Whether only successes give samples."""
    filter_same_screenshot: bool = True
    """Whether steps without effect are left out. It goes by more than pictures: see
    `webtraj.processing.steps.no_effect`."""
    same_screenshot_except: tuple[str, ...] = ()
    """Patterns of tasks and environments whose steps without effect stay: `miniwob/*`."""
    min_steps: int = 1
    """Actions that an episode must have. Tasks that are done with a single click need 1."""
    valid_actions_only: bool = True
    """Whether replies that were no actions are left out. Right for imitation; reinforcement needs
    them, so `webtraj export` lets them into tokens and preferences unless told otherwise."""
    distinct: bool = True
    """Whether of decisions with the same prompt and completion only the latest stays."""
    max_per_task: int | None = None
    """Samples of one task; which ones stay is drawn by the buffer's seed."""
    max_per_site: int | None = None
    """Samples of one site, likewise. Those without a site have no cap."""
    success_band: tuple[float, float] | None = None
    """Success rates, from one to another, ends included, that a task's graded episodes must have:
    (0.05, 0.75) leaves out what is hopeless and what is known."""
    where: str = ""
    """A condition on episodes, as `webtraj.datasets.conditions` has them."""

    def __post_init__(self) -> None:
        flags = (
            "filter_successful_only", "filter_same_screenshot", "valid_actions_only", "distinct",
        )  # fmt: skip
        for name in flags:
            if not isinstance(getattr(self, name), bool):
                raise _refusal(name, getattr(self, name), "True or False")
        for name, least in (("min_steps", 0), ("max_per_task", 1), ("max_per_site", 1)):
            value = getattr(self, name)
            if value is None and name != "min_steps":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise _refusal(name, value, f"a whole number of at least {least}")
        patterns = self.same_screenshot_except
        if isinstance(patterns, str) or not all(isinstance(p, str) for p in patterns):
            raise _refusal("same_screenshot_except", patterns, "a list of patterns")
        object.__setattr__(self, "same_screenshot_except", tuple(patterns))
        if self.success_band is not None:
            band = tuple(self.success_band)
            if len(band) != 2 or not 0.0 <= band[0] <= band[1] <= 1.0 or math.isnan(sum(band)):
                raise _refusal("success_band", band, "two rates from 0 to 1, the lower one first")
            object.__setattr__(self, "success_band", band)

    def to_data(self) -> dict[str, Any]:
        """Returns them as JSON data."""
        return {
            field.name: list(value) if isinstance(value, tuple) else value
            for field in dataclasses.fields(self)
            for value in [getattr(self, field.name)]
        }


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Returns whether a name is one of some, or fits a pattern of them.

    >>> matches("miniwob/click-test", ["miniwob/*"])
    True
    """
    return any(name == pattern or fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _refusal(name: str, value: Any, expected: str) -> errors.InvalidInputError:
    return errors.InvalidInputError(f"Filters.{name} is {value!r:.100}; expected {expected}.")
