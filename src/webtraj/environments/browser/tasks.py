"""What a browser environment asks of a task: where it begins, what it wants, what it is worth."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

__all__ = ["PageTask", "Verdict"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a task says of the page as it is now."""

    done: bool = False
    """Whether the episode is over."""
    reward: float = 0.0
    """The reward of the step."""
    success: bool = False
    """Whether the task is done as it should be."""
    raw_reward: float = 0.0
    """The reward before any scaling by time."""
    scaled_reward: float = 0.0
    """The reward as the task scales it by the time taken."""
    reason: str = ""
    """Why, where the task says."""


class PageTask(Protocol):
    """A task that lives in one page, judged by the page's own state."""

    @property
    def name(self) -> str:
        """The task's name in records."""

    @property
    def url(self) -> str:
        """Where it begins."""

    @property
    def script(self) -> str:
        """JavaScript for the page (see `page_script`); empty for none."""

    @property
    def hidden(self) -> str:
        """A CSS selector of what the axtree leaves out; empty for nothing."""

    @property
    def reload(self) -> bool:
        """Whether each episode needs the page loaded anew."""

    def begin(self, seed: int) -> Mapping[str, Any]:
        """Returns the argument for the script's `begin`: the episode of this seed."""

    def goal(self, begun: Any) -> str:
        """Returns the goal, from what the script's `begin` gave."""

    def judge(self, state: Any) -> Verdict:
        """Returns the verdict on what the script's `state` gave."""
