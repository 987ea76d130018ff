"""A random agent that explores what the agent `pointing` can do."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from typing import Any

from two_cores.pointing import items_of, make_prompt
from webtraj.agents.random import RandomAgent, check_share
from webtraj.environments.actions import Action

__all__ = ["RandomPointingAgent"]


@dataclasses.dataclass(frozen=True)
class RandomPointingAgent(RandomAgent):
    """webtraj's random agent, with more kinds of actions.

    Attributes:
        name: The policy name.
        pointing: The probability, from 0 to 1, of choosing among all that the agent `pointing` can
            do: also drags, scrolls, options, numbers and texts of the page. With the channel
            `boxes`, it also drags in a direction and clicks at places.
    """

    name: str = "random_pointing"
    pointing: float = 1.0

    def __post_init__(self) -> None:
        RandomAgent.__post_init__(self)
        check_share(self.name, "pointing", self.pointing)

    def other_action(self, observation: Mapping[str, Any], source: random.Random) -> Action | None:
        """Return an action that a reply of `pointing` can mean."""
        # Draw only if needed, so that choices are those of `random` without this option.
        if not self.pointing or source.random() >= self.pointing:
            return None
        items = items_of(observation["axtree"], observation.get("boxes"))
        prompt = make_prompt(observation.get("goal", ""), items, names=source)
        return prompt.some_action(source)
