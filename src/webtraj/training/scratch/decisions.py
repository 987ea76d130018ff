"""Recorded steps as pointing prompts, for any policy and any kind of observation."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping
from typing import Any

from webtraj.agents.models.base import Message
from webtraj.agents.pointing import Item, Prompt, done_as, items_of, make_prompt
from webtraj.environments.actions import Action, InvalidAction
from webtraj.training.replay.cutting import Rendered, action_of, loaded
from webtraj.trajectory import EpisodeTrajectory

__all__ = ["Decided", "PointingRenderer", "decisions_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """A step's decision and its context."""

    step: int
    goal: str
    items: tuple[Item, ...]
    done: tuple[tuple[str, str], ...]
    action: Action

    def prompt(self, names: random.Random) -> tuple[Prompt, str] | None:
        """Return the prompt with assigned names and the reply; None if they cannot be expressed."""
        prompt = make_prompt(self.goal, self.items, self.done, names=names)
        reply = prompt.reply_for(self.action)
        return None if reply is None else (prompt, reply)


def decisions_of(trajectory: EpisodeTrajectory) -> Iterator[Decided]:
    """Yield the decisions of an episode that a pointing agent could have made.

    Decisions that it could not have made (they type text that is not in the goal, or act on no
    element) are also left out of the history of later prompts.
    """
    done: list[tuple[str, str]] = []
    for step in range(1, len(trajectory.steps)):
        before = trajectory.steps[step - 1].observation
        if not isinstance(before, Mapping):
            return
        tree, goal = loaded(before.get("axtree")), loaded(before.get("goal"))
        action = action_of(trajectory, step)
        if not isinstance(tree, str) or not isinstance(action, Action):
            continue
        if isinstance(action, InvalidAction):
            continue
        items = tuple(items_of(tree))
        goal = goal if isinstance(goal, str) and goal else trajectory.info.goal
        decided = Decided(step, goal, items, tuple(done), action)
        if decided.prompt(random.Random(0)) is not None:
            yield decided
            if (said := done_as(action, items)) is not None:
                done.append(said)


@dataclasses.dataclass(frozen=True, slots=True)
class PointingRenderer:
    """A renderer of a pointing agent's prompts: see `webtraj.training.replay.Renderer`."""

    seed: int = 0
    """Seed of the names."""

    @property
    def reference(self) -> Mapping[str, Any]:
        """See `Renderer.reference`."""
        return {"renderer": "pointing", "seed": self.seed}

    def render(self, trajectory: EpisodeTrajectory) -> Mapping[int, Rendered]:
        """See `Renderer.render`."""
        found: dict[int, Rendered] = {}
        for decided in decisions_of(trajectory):
            names = random.Random(f"{self.seed}/{trajectory.episode_id}/{decided.step}")
            asked = decided.prompt(names)
            assert asked is not None
            found[decided.step] = Rendered((Message.of("user", asked[0].text),), asked[1])
        return found
